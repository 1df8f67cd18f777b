//! Records of batches: calls with the calls that wait for them, and the ends of batches.
//! Paper: DistDGCC §3.2, Figure 7; §3.3.1 (outgoing edges only). Differs: the fields of distributed
//! transactions are missing; a vertex that has no record, because its call failed or wrote nothing, is left
//! out, and the calls that wait for it wait for the calls that it waited for.
//!
//! A vertex's payload: number of the calls of its batch that wait for it (varint), for each the distance from
//! the one before (varint; the first from the vertex itself), ascending; then the payload of a call
//! (`command`). Distances are those of commit orders: the orders of a batch are consecutive, and a call's
//! order is its place.
//! The payload of a vertex's writes is that of a write set (`writes`). They are what the batch leaves, so
//! they are valid only together with the remaining records of their batch.
//! The end of a batch has the order of its last vertex. Payload: number of vertices (varint), of those that
//! have committed writes (varint), and of the records that the log has of them (varint). So the batch has
//! the orders above end - vertices up to end.

use super::{BODY_FROM, RecordKind, append, begin};
use catalog::{CommitOrder, DecodeError, Reader, put_varint};

/// The calls that wait for a call of their batch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Later<'a> {
    count: u32,
    distances: &'a [u8],
}

impl<'a> Later<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = u32::try_from(reader.varint()?).map_err(|_| DecodeError)?;
        let mut after = reader.clone();
        let before = after.remaining();
        for _ in 0..count {
            let distance = after.varint()?;
            if distance == 0 || distance >= CommitOrder::SEQUENCE_LIMIT {
                return Err(DecodeError);
            }
        }
        Ok(Self { count, distances: reader.take(before - after.remaining())? })
    }

    /// Returns their orders, where `of` is the order of the call that they wait for.
    pub fn orders(self, of: CommitOrder) -> impl Iterator<Item = CommitOrder> + use<'a> {
        let mut reader = Reader::new(self.distances);
        // All distances were checked when the record was read.
        (0..self.count).scan(of.0, move |order, _| {
            *order += reader.varint().ok()?;
            Some(CommitOrder(*order))
        })
    }
}

/// Appends the record of a vertex to a buffer: the record of its call, and the vertices that wait for it, as
/// distances in the batch, ascending. Returns the start of the record; `seal` completes it.
pub fn put_vertex(call: &[u8], later: &[u32], buffer: &mut Vec<u8>) -> usize {
    let start = append(RecordKind::Vertex, buffer);
    put_varint(later.len() as u64, buffer);
    let mut before = 0;
    for distance in later {
        put_varint(u64::from(distance - before), buffer);
        before = *distance;
    }
    buffer.extend_from_slice(&call[BODY_FROM..]);
    start
}

/// The end of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchEndRecord {
    /// Number of vertices, at least 1.
    pub vertices: u32,
    /// Number of vertices that have committed writes.
    pub commits: u32,
    /// Number of records of vertices in the log. A vertex has one, none or several.
    pub records: u32,
}

impl BatchEndRecord {
    /// Writes the record.
    pub fn write(self, buffer: &mut Vec<u8>) {
        begin(RecordKind::BatchEnd, buffer);
        put_varint(self.vertices.into(), buffer);
        put_varint(self.commits.into(), buffer);
        put_varint(self.records.into(), buffer);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut number = || u32::try_from(reader.varint()?).map_err(|_| DecodeError);
        let record = Self { vertices: number()?, commits: number()?, records: number()? };
        let fits = record.vertices > 0 && record.commits <= record.vertices;
        if fits { Ok(record) } else { Err(DecodeError) }
    }

    /// Returns the order of the first vertex, where `end` is that of the record.
    ///
    /// # Errors
    /// There is no such order.
    pub fn first(self, end: CommitOrder) -> Result<CommitOrder, DecodeError> {
        let first = (end.0 + 1).checked_sub(self.vertices.into()).map(CommitOrder);
        first.filter(|first| first.epoch() == end.epoch()).ok_or(DecodeError)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CallRecord, Record, put_written, read, seal};
    use super::*;
    use catalog::{ProcedureId, Written};

    #[test]
    fn vertices_and_ends_of_batches_come_back() {
        let written = Written { rows: 2, checksum: 7 };
        let call = CallRecord {
            procedure: ProcedureId(3),
            version: 1,
            timestamp_us: 9,
            seed: 0,
            witnessed: procedure::Witnessed::Nothing,
            arguments: &[4, 5],
            written: Some(written),
            later: Later::default(),
        };
        let (mut plain, mut bytes) = (Vec::new(), vec![1, 2, 3]);
        call.write(&mut plain);
        put_written(written, &mut plain);
        let start = put_vertex(&plain, &[1, 5, 300], &mut bytes);
        assert_eq!(start, 3);
        seal(CommitOrder(70), &mut bytes[start..]);
        let (stamp, kind, record) = read(&mut Reader::new(&bytes[start..])).unwrap();
        assert_eq!((stamp.order, kind), (CommitOrder(70), RecordKind::Vertex));
        let Record::Call(found) = record else { panic!("a vertex is a call: {record:?}") };
        let later: Vec<u64> = found.later.orders(stamp.order).map(|order| order.0).collect();
        assert_eq!(later, [71, 75, 370]);
        assert_eq!(CallRecord { later: Later::default(), ..found }, call);

        let end = BatchEndRecord { vertices: 300, commits: 20, records: 7 };
        end.write(&mut bytes);
        seal(CommitOrder(1_000), &mut bytes);
        let (_, _, record) = read(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(record, Record::BatchEnd(end));
        assert_eq!(end.first(CommitOrder(1_000)), Ok(CommitOrder(701)));
        assert!(end.first(CommitOrder(7)).is_err());
    }
}

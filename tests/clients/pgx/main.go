// pgx against a server: types, batches, CopyFrom, pools, notifications. Arguments: a port, a database.
// Prints what it is answered; run compares PostgreSQL's answers with Reprise's.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		fmt.Println("FAILED", err)
		os.Exit(1)
	}
}

type row struct {
	ID      int32
	T       *string
	N       pgtype.Numeric
	At      *time.Time
	B       []byte
	Day     pgtype.Date
	F       *float64
	Ok      *bool
	J       map[string]any
	A       []int32
	X       []*string
	U       pgtype.UUID
	I       pgtype.Interval
	Big     *int64
	Mood    *string
	TimeOf  pgtype.Time
	Plain   pgtype.Timestamp
	Short   *int16
	Varying *string
}

const columns = "id, t, n, at, b, day, f, ok, j, a, x, u, i, big, mood, time_of, plain, short, varying"

func failed(connection *pgx.Conn, query string, arguments ...any) {
	_, err := connection.Exec(ctx, query, arguments...)
	var own *pgconn.PgError
	if errors.As(err, &own) {
		fmt.Println(own.Code, own.Message, own.ConstraintName, own.TableName, own.Position)
	} else {
		fmt.Println(err)
	}
}

func valuesComeBack(connection *pgx.Conn) {
	_, err := connection.Exec(ctx, "CREATE TYPE mood AS ENUM ('sad', 'happy')")
	must(err)
	_, err = connection.Exec(ctx, `CREATE TABLE p (id INT PRIMARY KEY, t TEXT, n NUMERIC(10,2), at TIMESTAMPTZ, b BYTEA, day DATE,
		f FLOAT8, ok BOOL, j JSONB, a INT[], x TEXT[], u UUID, i INTERVAL, big BIGINT, mood mood, time_of TIME, plain TIMESTAMP,
		short SMALLINT, varying VARCHAR(9))`)
	must(err)
	text, number, ok, float, big, short, mood, moment := "héllo\t", pgtype.Numeric{}, true, 1.5, int64(1)<<60, int16(7), "happy", time.Date(2024, 1, 2, 3, 4, 5, 6000, time.UTC)
	must(number.Scan("12.50"))
	day := pgtype.Date{Time: time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), Valid: true}
	plain := pgtype.Timestamp{Time: moment, Valid: true}
	tag, err := connection.Exec(ctx, "INSERT INTO p ("+columns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
		1, &text, number, moment, []byte{0, 255}, day, float, ok, map[string]any{"a": []int{1}}, []int32{1, 2}, []*string{&text, nil},
		pgtype.UUID{Bytes: [16]byte{15: 5}, Valid: true}, pgtype.Interval{Months: 1, Days: 2, Microseconds: 3, Valid: true}, big, mood,
		pgtype.Time{Microseconds: 3_600_000_000, Valid: true}, plain, short, "varying")
	must(err)
	fmt.Println(tag)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec} {
		rows, err := connection.Query(ctx, "SELECT "+columns+" FROM p WHERE id = $1", mode, 1)
		must(err)
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		must(err)
		for _, own := range found {
			fmt.Println(own.ID, *own.T, own.N, own.At.UTC(), own.B, own.Day.Time, *own.F, *own.Ok, own.J, own.A, *own.X[0], own.X[1], own.U, own.I,
				*own.Big, *own.Mood, own.TimeOf, own.Plain.Time, *own.Short, *own.Varying)
		}
	}
	rows, err := connection.Query(ctx, "SELECT $1::text, $2::int8, id = ANY($3), mood FROM p", nil, int64(5), []int32{1, 2})
	must(err)
	for _, field := range rows.FieldDescriptions() {
		fmt.Println(field.Name, field.DataTypeSize, field.TypeModifier, field.TableAttributeNumber)
	}
	for rows.Next() {
		values, err := rows.Values()
		must(err)
		fmt.Println(values...)
	}
	must(rows.Err())
	var moods []string
	enum, err := connection.LoadType(ctx, "mood")
	must(err)
	connection.TypeMap().RegisterType(enum)
	array, err := connection.LoadType(ctx, "_mood")
	must(err)
	connection.TypeMap().RegisterType(array)
	must(connection.QueryRow(ctx, "SELECT $1::mood[]", []string{"sad", "happy"}).Scan(&moods))
	fmt.Println(moods, array.Name)
}

func rowsAreCopied(connection *pgx.Conn) {
	var source [][]any
	for n := 100; n < 400; n++ {
		source = append(source, []any{int32(n), fmt.Sprintf("copied\t%d", n), float64(n) / 4, []int32{int32(n)}, "sad"})
	}
	count, err := connection.CopyFrom(ctx, pgx.Identifier{"p"}, []string{"id", "t", "f", "a", "mood"}, pgx.CopyFromRows(source))
	must(err)
	var sum float64
	must(connection.QueryRow(ctx, "SELECT sum(f) FROM p WHERE mood = 'sad'").Scan(&sum))
	fmt.Println(count, sum)
	_, err = connection.CopyFrom(ctx, pgx.Identifier{"public", "p"}, []string{"id"}, pgx.CopyFromRows([][]any{{int32(900)}, {int32(1)}}))
	fmt.Println(err)
}

func batchesAreSent(connection *pgx.Conn) {
	batch := &pgx.Batch{}
	batch.Queue("UPDATE p SET t = $1 WHERE id = 1", "batched")
	batch.Queue("SELECT t FROM p WHERE id = $1", 1).QueryRow(func(own pgx.Row) error {
		var text string
		defer func() { fmt.Println(text) }()
		return own.Scan(&text)
	})
	batch.Queue("INSERT INTO p (id) VALUES (1)")
	fmt.Println(connection.SendBatch(ctx, batch).Close())
	var text string
	must(connection.QueryRow(ctx, "SELECT t FROM p WHERE id = 1").Scan(&text))
	fmt.Printf("%q\n", text)
	must(pgx.BeginTxFunc(ctx, connection, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(own pgx.Tx) error {
		_, err := own.Exec(ctx, "UPDATE p SET t = 'outer' WHERE id = 1")
		must(err)
		nested, err := own.Begin(ctx)
		must(err)
		_, err = nested.Exec(ctx, "UPDATE p SET t = 'inner' WHERE id = 1")
		must(err)
		return nested.Rollback(ctx)
	}))
	must(connection.QueryRow(ctx, "SELECT t FROM p WHERE id = 1").Scan(&text))
	fmt.Println(text)
}

func errorsSayWhatTheyAreAbout(connection *pgx.Conn) {
	failed(connection, "INSERT INTO p (id) VALUES ($1)", 1)
	failed(connection, "SELECT * FROM nothing")
	failed(connection, "SELECT 1 / $1::int", 0)
	failed(connection, "INSERT INTO p (id, mood) VALUES (5000, $1)", "angry")
	failed(connection, "INSERT INTO p (id, varying) VALUES (5000, $1)", "more than nine")
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := connection.Exec(short, "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b")
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
}

func notificationsArrive(connection, other *pgx.Conn) {
	_, err := connection.Exec(ctx, "LISTEN news")
	must(err)
	own, err := other.Begin(ctx)
	must(err)
	for _, payload := range []string{"first", "second", "first", ""} {
		_, err = own.Exec(ctx, "SELECT pg_notify('news', $1)", payload)
		must(err)
	}
	early, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = connection.WaitForNotification(early)
	fmt.Println(err != nil)
	must(own.Commit(ctx))
	_, err = other.Exec(ctx, "NOTIFY news, 'last'")
	must(err)
	for range 4 {
		long, cancel := context.WithTimeout(ctx, 10*time.Second)
		heard, err := connection.WaitForNotification(long)
		cancel()
		must(err)
		fmt.Println(heard.Channel, heard.Payload, heard.PID == other.PgConn().PID())
	}
	_, err = connection.Exec(ctx, "UNLISTEN news")
	must(err)
}

func poolsGiveConnections(url string) {
	pool, err := pgxpool.New(ctx, url+"?pool_max_conns=4")
	must(err)
	defer pool.Close()
	var all sync.WaitGroup
	var lock sync.Mutex
	var sums []int
	for n := range 20 {
		all.Add(1)
		go func() {
			defer all.Done()
			var sum int
			must(pool.QueryRow(ctx, "SELECT $1::int + 1", n).Scan(&sum))
			lock.Lock()
			sums = append(sums, sum)
			lock.Unlock()
		}()
	}
	all.Wait()
	sort.Ints(sums)
	fmt.Println(sums)
}

func main() {
	url := fmt.Sprintf("postgres://postgres@127.0.0.1:%s/%s", os.Args[1], os.Args[2])
	connection, err := pgx.Connect(ctx, url)
	must(err)
	other, err := pgx.Connect(ctx, url)
	must(err)
	fmt.Println("valuesComeBack")
	valuesComeBack(connection)
	fmt.Println("rowsAreCopied")
	rowsAreCopied(connection)
	fmt.Println("batchesAreSent")
	batchesAreSent(connection)
	fmt.Println("notificationsArrive")
	notificationsArrive(connection, other)
	fmt.Println("errorsSayWhatTheyAreAbout")
	errorsSayWhatTheyAreAbout(connection)
	fmt.Println("poolsGiveConnections")
	poolsGiveConnections(url)
}

"""SQLAlchemy against a server: tables, the ORM, reflection, what Alembic would change. Arguments: a driver, a port, a database.

Prints what it is answered; `run` compares PostgreSQL's answers with Reprise's."""

import datetime
import decimal
import enum
import re
import sys
import uuid

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext import automap
from sqlalchemy.dialects import postgresql as pg

engine = sa.create_engine(f"postgresql+{sys.argv[1]}://postgres@127.0.0.1:{sys.argv[2]}/{sys.argv[3]}")


class Base(orm.DeclarativeBase):
    pass


class Mood(enum.Enum):
    sad = 1
    happy = 2


tagged = sa.Table(
    "tagged",
    Base.metadata,
    sa.Column("post_id", sa.ForeignKey("post.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("tag_id", sa.ForeignKey("tag.id"), primary_key=True),
)


class Author(Base):
    __tablename__ = "author"
    __table_args__ = (
        sa.UniqueConstraint("name", "born", name="one_author"),
        sa.CheckConstraint("rank >= 0", name="ranked"),
        sa.Index("by_motto", sa.text("lower(motto)")),
        sa.Index("living", "born", unique=True, postgresql_where=sa.text("died IS NULL")),
        {"comment": "who writes"},
    )
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(40), comment="as printed")
    born: orm.Mapped[datetime.date | None]
    died: orm.Mapped[datetime.date | None]
    mood: orm.Mapped[Mood | None] = orm.mapped_column(sa.Enum(Mood, name="mood"))
    balance: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(10, 2), server_default=sa.text("0"))
    joined: orm.Mapped[datetime.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    seen: orm.Mapped[datetime.datetime | None]
    key: orm.Mapped[uuid.UUID] = orm.mapped_column(default=uuid.uuid4)
    about: orm.Mapped[dict | None] = orm.mapped_column(pg.JSONB)
    tags: orm.Mapped[list[str] | None] = orm.mapped_column(pg.ARRAY(sa.Text))
    picture: orm.Mapped[bytes | None]
    score: orm.Mapped[float | None]
    active: orm.Mapped[bool] = orm.mapped_column(server_default=sa.true())
    rank: orm.Mapped[int] = orm.mapped_column(default=0)
    motto: orm.Mapped[str | None] = orm.mapped_column(sa.Text)
    loud: orm.Mapped[str | None] = orm.mapped_column(sa.Text, sa.Computed("upper(motto)", persisted=True))
    posts: orm.Mapped[list["Post"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Post(Base):
    __tablename__ = "post"
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity(start=100, always=True), primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("author.id", onupdate="CASCADE"), index=True)
    title: orm.Mapped[str] = orm.mapped_column(sa.Text)
    edition: orm.Mapped[int] = orm.mapped_column(sa.SmallInteger, default=1)
    author: orm.Mapped[Author] = orm.relationship(back_populates="posts")
    tags: orm.Mapped[list["Tag"]] = orm.relationship(secondary=tagged)
    __mapper_args__ = {"version_id_col": edition}


class Tag(Base):
    __tablename__ = "tag"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    label: orm.Mapped[str] = orm.mapped_column(sa.CHAR(5), unique=True)


class Entry(Base):
    __tablename__ = "entry"
    __table_args__ = {"schema": "journal"}
    day: orm.Mapped[datetime.date] = orm.mapped_column(primary_key=True)
    place: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
    took: orm.Mapped[datetime.timedelta | None]
    at: orm.Mapped[datetime.time | None]
    post_id: orm.Mapped[int | None] = orm.mapped_column(sa.ForeignKey("post.id", ondelete="SET NULL"))


def show(*values):
    print(*(repr(value) for value in values))


def failed(connection, statement, *arguments):
    try:
        with connection.begin_nested():
            connection.execute(statement, *arguments)
        show("no error")
    except sa.exc.DBAPIError as error:
        show(type(error).__name__, getattr(error.orig, "sqlstate", None), str(error.orig).split("\n")[0])


def tables_are_made():
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema("journal", if_not_exists=True))
        show(sa.inspect(connection).has_table("author"), engine.dialect.has_schema(connection, "journal"))
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)  # finds that all are there


def objects_come_back():
    with orm.Session(engine) as session:
        ann = Author(
            name="Ann", born=datetime.date(1970, 2, 28), mood=Mood.happy, balance=decimal.Decimal("12.50"),
            seen=datetime.datetime(2024, 1, 2, 3, 4, 5, 678), key=uuid.UUID(int=7), about={"a": [1, None, "x"]},
            tags=["plain", 'a "b"', ""], picture=b"\x00\xff", score=1.5, motto="write",
        )
        bob = Author(name="Bob", key=uuid.UUID(int=8))
        labels = [Tag(label="red"), Tag(label="blue")]
        ann.posts = [Post(title=f"title {n}", tags=labels[:n]) for n in range(3)]
        bob.posts = [Post(title="bob's")]
        session.add_all([ann, bob])
        session.commit()
        show(ann.id, bob.id, [post.id for post in ann.posts], ann.loud, ann.active, bob.balance)
    with orm.Session(engine) as session:
        ann = session.scalars(sa.select(Author).where(Author.name == "Ann").options(orm.selectinload(Author.posts))).one()
        show(ann.born, ann.mood, ann.balance, ann.seen, ann.key, ann.about, ann.tags, ann.picture, ann.score, ann.loud)
        show([(post.title, [tag.label for tag in post.tags]) for post in ann.posts])
        ann.posts[0].title = "changed"
        del ann.posts[2]
        session.commit()
        show([(post.title, post.edition) for post in ann.posts])
        joined = sa.select(Author.name, sa.func.count(Post.id)).outerjoin(Author.posts).group_by(Author.name)
        show(session.execute(joined.order_by(sa.desc(sa.func.count()), Author.name)).all())
        loaded = sa.select(Author).options(orm.joinedload(Author.posts).joinedload(Post.tags)).order_by(Author.id)
        show([(a.name, len(a.posts)) for a in session.scalars(loaded).unique()])
        show(session.scalars(sa.select(Post.title).where(Post.tags.any(Tag.label == "red"))).all())
        show(session.scalars(sa.select(Author.name).where(sa.literal("plain") == sa.any_(Author.tags), Author.about["a"][0].astext == "1")).all())
        bob = session.scalars(sa.select(Author).filter_by(name="Bob").with_for_update()).one()
        session.delete(bob)
        session.commit()
        show(session.scalar(sa.select(sa.func.count()).select_from(Post)))


def statements_are_made():
    author, post = Author.__table__, Post.__table__
    with engine.begin() as connection:
        insert = pg.insert(author).values(id=1, name="Ann", key=uuid.UUID(int=9))
        insert = insert.on_conflict_do_update(index_elements=[author.c.id], set_={"score": sa.literal(2.5)})
        show(connection.execute(insert.returning(author.c.id, author.c.score)).all())
        many = [{"title": f"many {n}", "author_id": 1, "edition": n} for n in range(5)]
        show(connection.execute(sa.insert(post).returning(post.c.id, post.c.edition, sort_by_parameter_order=True), many).all())
        show(connection.execute(sa.update(post).where(post.c.edition > 2).values(title=post.c.title + "!")).rowcount)
        latest = sa.select(post, sa.func.row_number().over(partition_by=post.c.author_id, order_by=post.c.id.desc()).label("n"))
        latest = latest.cte("latest")
        show(connection.execute(sa.select(latest.c.title, latest.c.n).where(latest.c.n < 3).order_by(latest.c.n)).all())
        n = sa.select(sa.literal(1).label("n")).cte("n", recursive=True)
        n = n.union_all(sa.select(n.c.n + 1).where(n.c.n < 5))
        show(connection.scalars(sa.select(n.c.n)).all())
        kinds = sa.case((post.c.edition < 2, "early"), else_="late")
        counted = sa.select(kinds, sa.func.count().filter(post.c.id > 101), sa.func.array_agg(pg.aggregate_order_by(post.c.edition, post.c.id)))
        show(connection.execute(counted.group_by(kinds).order_by(kinds)).all())
        show(connection.execute(sa.select(sa.values(sa.column("a", sa.Integer), sa.column("b", sa.String), name="v").data([(1, "x"), (2, "y")]))).all())
        show(connection.execute(sa.select(post.c.id).where(sa.tuple_(post.c.id, post.c.edition).in_([(100, 1), (101, 1)])).order_by(post.c.id)).all())
        show(connection.execute(sa.select(sa.extract("year", author.c.born), sa.cast(author.c.score, sa.Integer), sa.type_coerce(author.c.about, pg.JSONB)["a"][2].astext).where(author.c.id == 1)).all())
        show(connection.execute(sa.select(post.c.id).where(post.c.title.ilike("%MANY%"), post.c.title.regexp_match("[0-2]")).order_by(sa.nulls_last(post.c.id)).limit(2).offset(1)).all())
        show(connection.execute(sa.delete(post).where(post.c.title.startswith("many")).returning(post.c.edition)).rowcount)
        show(connection.execute(sa.text("SELECT :a + 1 AS x, CAST(:b AS text) AS y"), {"a": 4, "b": "z"}).mappings().one())
        entry = Entry.__table__
        connection.execute(sa.insert(entry), [{"day": datetime.date(2024, 1, n), "place": n, "took": datetime.timedelta(days=n, seconds=90), "at": datetime.time(10, n)} for n in (1, 2)])
        show(connection.execute(sa.select(entry).order_by(entry.c.day)).all())
        show(connection.execute(sa.select(entry.c.day + entry.c.took, sa.func.date_trunc("month", entry.c.day)).order_by(entry.c.day)).all()[0][0])


def errors_have_their_classes():
    author, post = Author.__table__, Post.__table__
    with engine.begin() as connection:
        failed(connection, sa.insert(author), {"id": 1, "name": "again", "key": uuid.uuid4()})
        failed(connection, sa.insert(post), {"author_id": 99, "title": "x", "edition": 1})
        failed(connection, sa.insert(author), {"name": None, "key": uuid.uuid4()})
        failed(connection, sa.insert(author), {"name": "poor", "rank": -1, "key": uuid.uuid4()})
        failed(connection, sa.insert(author), {"name": "x" * 41, "key": uuid.uuid4()})
        failed(connection, sa.text("SELECT * FROM nothing"))
        failed(connection, sa.text("SELECT 1 / 0"))
        failed(connection, sa.text("SELEC 1"))
        show(connection.scalar(sa.text("SELECT count(*) FROM author")))
    try:
        with orm.Session(engine) as first, orm.Session(engine) as second:
            one, other = first.get(Post, 100), second.get(Post, 100)
            one.title = "one"
            first.commit()
            other.title = "other"
            second.commit()
    except (orm.exc.StaleDataError, sa.exc.OperationalError) as error:
        show("stale")


def transactions_have_levels():
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT"):
        with engine.connect().execution_options(isolation_level=level) as connection:
            show(connection.scalar(sa.text("SELECT count(*) FROM author")))
    with engine.connect().execution_options(postgresql_readonly=True, isolation_level="SERIALIZABLE") as connection:
        failed(connection, sa.text("DELETE FROM author"))
    with engine.connect().execution_options(stream_results=True, yield_per=3) as connection:
        show([list(part) for part in connection.execute(sa.text("SELECT n FROM generate_series(1, 8) AS n")).partitions()])


def plain(value):
    """A reflected value without what differs between runs."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, int, bool, type(None))) else repr(value)


def everything_is_reflected():
    inspector = sa.inspect(engine)
    show(sorted(inspector.get_schema_names()), inspector.default_schema_name)
    for schema in (None, "journal"):
        show(sorted(inspector.get_table_names(schema)), inspector.get_view_names(schema), sorted(inspector.get_sequence_names(schema)))
        show(inspector.get_materialized_view_names(schema), inspector.get_temp_table_names(), inspector.get_enums(schema))
        for table in sorted(inspector.get_table_names(schema)):
            for column in inspector.get_columns(table, schema):
                show(table, plain(column))
            for of in (inspector.get_pk_constraint, inspector.get_table_comment, inspector.get_table_options):
                show(of.__name__, plain(of(table, schema)))
            for of in (inspector.get_foreign_keys, inspector.get_unique_constraints, inspector.get_check_constraints, inspector.get_indexes):
                show(of.__name__, plain(sorted(of(table, schema), key=lambda item: item["name"])))
    for kind in ("get_multi_columns", "get_multi_indexes", "get_multi_foreign_keys", "get_multi_check_constraints"):
        show(kind, sorted(str(key) for key in getattr(inspector, kind)(kind=sa.engine.reflection.ObjectKind.ANY)))
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE VIEW named AS SELECT id, name FROM author"))
    inspector = sa.inspect(engine)
    show(inspector.get_view_names(), plain(inspector.get_columns("named")), inspector.has_table("named"), inspector.has_index("post", "ix_post_author_id"))
    reflected = sa.MetaData()
    reflected.reflect(engine, views=True)
    show(sorted(reflected.tables))
    for table in reflected.sorted_tables:
        for line in str(sa.schema.CreateTable(table).compile(engine)).split("\n"):
            print(line.rstrip())
    base = automap.automap_base()
    base.prepare(autoload_with=engine)
    show(sorted(base.classes.keys()))


def alembic_finds_what_differs():
    from alembic.autogenerate import api, compare_metadata
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    with engine.begin() as connection:
        connection.execute(sa.text("DROP VIEW IF EXISTS named"))
        options = {"compare_type": True, "compare_server_default": True, "include_schemas": True}
        context = MigrationContext.configure(connection, opts=options)
        show(compare_metadata(context, Base.metadata))
        operations = Operations(context)
        operations.add_column("post", sa.Column("rating", sa.Integer(), nullable=False, server_default="3"))
        operations.alter_column("author", "name", type_=sa.Text(), existing_type=sa.String(40))
        operations.create_index("by_title", "post", ["title", sa.text("id DESC")])
        operations.drop_constraint("ranked", "author", type_="check")
        operations.create_unique_constraint("one_title", "post", ["title", "author_id"])
        operations.create_table("extra", sa.Column("id", sa.Integer(), primary_key=True), sa.Column("n", sa.Float(), comment="n"))
        operations.rename_table("extra", "more")
        for difference in compare_metadata(context, Base.metadata):
            show(re.sub("0x[0-9a-f]+", "at", str(difference))[:160])
        produced = api.produce_migrations(context, Base.metadata)
        print(api.render_python_code(produced.upgrade_ops))
        operations.drop_table("more")
        operations.drop_index("by_title", table_name="post")
        operations.drop_constraint("one_title", "post")
        operations.drop_column("post", "rating")
        operations.alter_column("author", "name", type_=sa.String(40), existing_type=sa.Text())
        operations.create_check_constraint("ranked", "author", "rank >= 0")
        show(compare_metadata(context, Base.metadata))


def tables_are_dropped():
    Base.metadata.drop_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.schema.DropSchema("journal"))
    show(sa.inspect(engine).get_table_names())


for check in (
    tables_are_made,
    objects_come_back,
    statements_are_made,
    errors_have_their_classes,
    transactions_have_levels,
    everything_is_reflected,
    alembic_finds_what_differs,
    tables_are_dropped,
):
    print(check.__name__)
    check()

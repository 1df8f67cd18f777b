"""Django against a server: `migrate`, models, `inspectdb`. Arguments: a port, a database, a folder for the application.

Prints what it is answered; `run` compares PostgreSQL's answers with Reprise's."""

import datetime
import decimal
import io
import pathlib
import sys
import uuid

import django
from django.conf import settings

MODELS = '''
import uuid
from django.db import models

class Author(models.Model):
    name = models.CharField(max_length=40, db_index=True)
    email = models.EmailField(unique=True)
    born = models.DateField(null=True)
    balance = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    joined = models.DateTimeField(auto_now_add=True)
    key = models.UUIDField(default=uuid.uuid4)
    about = models.JSONField(default=dict)
    active = models.BooleanField(default=True)
    score = models.FloatField(null=True)
    took = models.DurationField(null=True)
    at = models.TimeField(null=True)
    picture = models.BinaryField(null=True)
    site = models.SlugField(default="")
    small = models.PositiveSmallIntegerField(default=1)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=models.Q(balance__gte=0), name="solvent"),
            models.UniqueConstraint(fields=["name", "born"], condition=models.Q(active=True), name="one_living"),
        ]
        indexes = [models.Index(fields=["-born", "name"], name="by_birth"), models.Index(models.functions.Lower("name"), name="folded")]

class Tag(models.Model):
    label = models.CharField(max_length=10, primary_key=True)

class Post(models.Model):
    author = models.ForeignKey(Author, models.CASCADE, related_name="posts")
    parent = models.ForeignKey("self", models.SET_NULL, null=True)
    title = models.TextField()
    tags = models.ManyToManyField(Tag)
    votes = models.BigIntegerField(default=0)

    class Meta:
        unique_together = [("author", "title")]
'''


def show(*values):
    print(*(repr(value) for value in values))


def call(*arguments, **options):
    from django.core.management import call_command

    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=out, verbosity=1, no_color=True, **options)
    return out.getvalue()


port, database, folder = sys.argv[1:4]
application = pathlib.Path(folder) / "shop"
(application / "migrations").mkdir(parents=True)
for file, text in (("__init__.py", ""), ("migrations/__init__.py", ""), ("models.py", MODELS)):
    (application / file).write_text(text)
sys.path.insert(0, folder)
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": port, "USER": "postgres", "NAME": database}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "django.contrib.admin", "django.contrib.messages", "shop"],
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    SECRET_KEY="x",
)
django.setup()


def migrations_are_made():
    print(call("makemigrations", "shop"))
    print(call("migrate"))
    print(call("migrate"))
    print(call("showmigrations", "shop"))
    models = (application / "models.py").read_text()
    show("no changes", call("makemigrations", "shop", check=True, dry_run=True).strip() if models else "")


def objects_come_back():
    from django.db import IntegrityError, connection, models, transaction
    from django.db.models import Count, Exists, F, OuterRef, Q, Subquery, Sum, Window
    from django.db.models.functions import Coalesce, Lower, RowNumber, TruncMonth
    from shop.models import Author, Post, Tag

    ann = Author.objects.create(
        name="Ann", email="a@x", born=datetime.date(1970, 2, 28), balance=decimal.Decimal("12.50"), key=uuid.UUID(int=7), about={"a": [1, {"b": None}]},
        score=1.5, took=datetime.timedelta(days=2, seconds=5), at=datetime.time(10, 30), picture=b"\x00\xff",
    )
    bob = Author.objects.create(name="Bob", email="b@x", key=uuid.UUID(int=8))
    ann.refresh_from_db()
    show(ann.pk, bob.pk, ann.born, ann.balance, ann.key, ann.about, ann.score, ann.took, ann.at, bytes(ann.picture), ann.active)
    tags = Tag.objects.bulk_create([Tag(label=label) for label in ("red", "blue", "green")])
    posts = Post.objects.bulk_create([Post(author=ann if n % 2 else bob, title=f"title {n}", votes=n) for n in range(6)])
    show([post.pk for post in posts])
    for n, post in enumerate(posts):
        post.tags.set(tags[: n % 4])
    posts[3].parent = posts[0]
    posts[3].save()
    show(list(Author.objects.annotate(n=Count("posts"), votes=Sum("posts__votes")).values_list("name", "n", "votes")))
    show(list(Post.objects.filter(tags__label="red", author__name__icontains="an").order_by("-votes").values_list("title", flat=True)))
    show(list(Author.objects.filter(about__a__0=1).values_list("name", flat=True)), list(Author.objects.filter(about__has_key="a").values_list("pk", flat=True)))
    show(list(Author.objects.filter(Q(email__endswith="x") & ~Q(name__startswith="A") | Q(born__year=1970)).values("name", "born__month")))
    show(Post.objects.filter(author=ann).update(votes=F("votes") * 2 + 1), list(Post.objects.order_by("pk").values_list("votes", flat=True)))
    ranked = Post.objects.annotate(n=Window(RowNumber(), partition_by=[F("author")], order_by=F("votes").desc())).order_by("author", "n")
    show(list(ranked.values_list("author__name", "title", "n")))
    newest = Post.objects.filter(author=OuterRef("pk")).order_by("-votes")
    show(list(Author.objects.annotate(newest=Subquery(newest.values("title")[:1]), some=Exists(newest)).values_list("name", "newest", "some")))
    show(list(Author.objects.annotate(month=TruncMonth("born"), low=Lower("name"), score_or=Coalesce("score", 0.0)).values_list("month", "low", "score_or")))
    show(Tag.objects.get_or_create(label="new")[1], Author.objects.update_or_create(email="b@x", defaults={"name": "Bobby"})[1])
    upserted = Author.objects.bulk_create(
        [Author(name="Cid", email="b@x"), Author(name="Dan", email="d@x")], update_conflicts=True, unique_fields=["email"], update_fields=["name"]
    )
    show(len(upserted), list(Author.objects.values_list("name", flat=True)), Author.objects.in_bulk([1]).keys())
    show(list(Post.objects.select_related("author", "parent").filter(parent__isnull=False).values_list("title", "parent__title", "author__email")))
    show([(post.title, sorted(tag.label for tag in post.tags.all())) for post in Post.objects.prefetch_related("tags").order_by("pk")])
    with transaction.atomic():
        locked = list(Author.objects.select_for_update(of=("self",)).filter(pk=1))
        show(len(locked), [own.pk for own in Author.objects.select_for_update(skip_locked=True).order_by("pk")])
        for wrong in ({"name": "x", "email": "a@x"}, {"name": "x", "email": "y@x", "balance": -1}, {"name": None, "email": "z@x"}):
            try:
                with transaction.atomic():
                    Author.objects.create(**wrong)
            except IntegrityError as error:
                show(str(error).split("\n")[0])
    show(list(Post.objects.values("author__name").annotate(n=Count("tags", distinct=True)).filter(n__gt=1).order_by("author__name")))
    show(list(Post.objects.filter(votes__gt=3).union(Post.objects.filter(votes__lt=2)).order_by("votes").values_list("votes", flat=True)))
    show(list(Post.objects.dates("author__born", "year")), Post.objects.aggregate(models.Max("votes"), models.Avg("votes"), models.StdDev("votes")))
    show([post.pk for post in Post.objects.order_by("pk").iterator(chunk_size=2)])
    show(Author.objects.filter(name="Ann").delete())
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s + 1, %s", [5, "x"])
        show(cursor.fetchall(), connection.introspection.table_names(cursor)[:4])


def tables_are_inspected():
    from django.db import connection

    print(call("inspectdb"))
    with connection.cursor() as cursor:
        for table in ("shop_author", "shop_post", "shop_post_tags", "shop_tag"):
            of = connection.introspection
            for name, constraint in sorted(of.get_constraints(cursor, table).items()):
                show(table, name, sorted(constraint.items(), key=str))
            show(of.get_relations(cursor, table), of.get_sequences(cursor, table), of.get_primary_key_columns(cursor, table))


def migrations_change_tables():
    models = MODELS.replace('score = models.FloatField(null=True)', 'rating = models.FloatField(default=2.5, db_comment="stars")\n    nick = models.CharField(max_length=9, null=True, unique=True)')
    models = models.replace('max_length=40, db_index=True', 'max_length=60').replace('votes = models.BigIntegerField(default=0)', 'votes = models.IntegerField(default=1, db_default=5)')
    models = models.replace('unique_together = [("author", "title")]', 'db_table = "writing"')
    (application / "models.py").write_text(models)
    import subprocess

    script = (
        "import sys, django; from django.conf import settings; sys.path.insert(0, sys.argv[3])\n"
        f"settings.configure(DATABASES={settings.DATABASES!r}, INSTALLED_APPS={settings.INSTALLED_APPS!r}, USE_TZ=True, DEFAULT_AUTO_FIELD='django.db.models.BigAutoField')\n"
        "django.setup(); from django.core.management import call_command as c\n"
        "c('makemigrations', 'shop', interactive=False, no_color=True); c('migrate', no_color=True); c('sqlmigrate', 'shop', '0002', no_color=True); c('migrate', 'shop', '0001', no_color=True); c('migrate', 'shop', 'zero', no_color=True)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, *sys.argv[1:4]], capture_output=True, text=True)
    print(ran.stdout, ran.stderr[-1500:])


for check in (migrations_are_made, objects_come_back, tables_are_inspected, migrations_change_tables):
    print(check.__name__)
    check()

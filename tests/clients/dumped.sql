SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA ext;
ALTER SCHEMA ext OWNER TO owner;
CREATE TYPE public.mood AS ENUM (
    'sad',
    'ok',
    'happy'
);
ALTER TYPE public.mood OWNER TO owner;
CREATE FUNCTION public.moods(m public.mood) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$ SELECT count(*) FROM person WHERE feels = m $$;
ALTER FUNCTION public.moods(m public.mood) OWNER TO owner;
CREATE FUNCTION public.order_total(o integer) RETURNS numeric
    LANGUAGE sql STABLE
    AS $$ SELECT sum(qty * price) FROM line WHERE order_id = o $$;
ALTER FUNCTION public.order_total(o integer) OWNER TO owner;
CREATE PROCEDURE public.place(IN cust integer, IN prod bigint, IN n integer, INOUT o integer DEFAULT NULL::integer)
    LANGUAGE plpgsql
    AS $$
DECLARE p numeric; BEGIN
 SELECT price INTO STRICT p FROM product WHERE id = prod;
 INSERT INTO orders (customer_id) VALUES (cust) RETURNING id INTO o;
 INSERT INTO line VALUES (o, 1, prod, n, p);
 UPDATE customer SET balance = balance - n * p WHERE id = cust;
END $$;
ALTER PROCEDURE public.place(IN cust integer, IN prod bigint, IN n integer, INOUT o integer) OWNER TO owner;
CREATE FUNCTION public.touch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN INSERT INTO audit (what) VALUES (TG_TABLE_NAME || ' ' || TG_OP); RETURN NEW; END $$;
ALTER FUNCTION public.touch() OWNER TO owner;
CREATE SEQUENCE ext.counter
    START WITH 100
    INCREMENT BY 5
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER TABLE ext.counter OWNER TO owner;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE ext.note (
    id integer NOT NULL,
    body text,
    tags integer DEFAULT 3
);
ALTER TABLE ext.note OWNER TO owner;
CREATE TABLE public.audit (
    id bigint NOT NULL,
    what text,
    who text DEFAULT CURRENT_USER,
    at timestamp with time zone DEFAULT now(),
    data bytea,
    day date,
    ref uuid DEFAULT gen_random_uuid(),
    ratio double precision
);
ALTER TABLE public.audit OWNER TO owner;
CREATE SEQUENCE public.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER TABLE public.audit_id_seq OWNER TO owner;
ALTER SEQUENCE public.audit_id_seq OWNED BY public.audit.id;
CREATE TABLE public.customer (
    id integer NOT NULL,
    email character varying(120) NOT NULL,
    name text,
    created timestamp with time zone DEFAULT now() NOT NULL,
    balance numeric(12,2) DEFAULT 0,
    CONSTRAINT customer_balance_check CHECK ((balance > ('-1000'::integer)::numeric))
);
ALTER TABLE public.customer OWNER TO owner;
COMMENT ON TABLE public.customer IS 'people who buy';
COMMENT ON COLUMN public.customer.email IS 'lower case';
CREATE SEQUENCE public.customer_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER TABLE public.customer_id_seq OWNER TO owner;
ALTER SEQUENCE public.customer_id_seq OWNED BY public.customer.id;
CREATE TABLE public.line (
    order_id integer NOT NULL,
    pos smallint NOT NULL,
    product_id bigint NOT NULL,
    qty integer NOT NULL,
    price numeric(8,2),
    CONSTRAINT line_qty_check CHECK ((qty > 0))
);
ALTER TABLE public.line OWNER TO owner;
CREATE TABLE public.orders (
    id integer NOT NULL,
    customer_id integer NOT NULL,
    at timestamp without time zone DEFAULT CURRENT_TIMESTAMP,
    status smallint DEFAULT 0 NOT NULL,
    note text
);
ALTER TABLE public.orders OWNER TO owner;
CREATE SEQUENCE public.orders_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER TABLE public.orders_id_seq OWNER TO owner;
ALTER SEQUENCE public.orders_id_seq OWNED BY public.orders.id;
CREATE TABLE public.person (
    id integer NOT NULL,
    name text NOT NULL,
    feels public.mood DEFAULT 'ok'::public.mood,
    data jsonb DEFAULT '{}'::jsonb NOT NULL,
    raw json
);
ALTER TABLE public.person OWNER TO owner;
COMMENT ON COLUMN public.person.data IS 'anything';
CREATE SEQUENCE public.person_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER TABLE public.person_id_seq OWNER TO owner;
ALTER SEQUENCE public.person_id_seq OWNED BY public.person.id;
CREATE TABLE public.product (
    id bigint NOT NULL,
    sku character(8) NOT NULL,
    title text NOT NULL,
    price numeric(8,2) NOT NULL,
    active boolean DEFAULT true NOT NULL
);
ALTER TABLE public.product OWNER TO owner;
ALTER TABLE public.product ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.product_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE VIEW public.totals AS
 SELECT o.id,
    c.name,
    sum(((l.qty)::numeric * l.price)) AS total
   FROM ((public.orders o
     JOIN public.customer c ON ((c.id = o.customer_id)))
     JOIN public.line l ON ((l.order_id = o.id)))
  GROUP BY o.id, c.name;
ALTER TABLE public.totals OWNER TO owner;
ALTER TABLE ONLY public.audit ALTER COLUMN id SET DEFAULT nextval('public.audit_id_seq'::regclass);
ALTER TABLE ONLY public.customer ALTER COLUMN id SET DEFAULT nextval('public.customer_id_seq'::regclass);
ALTER TABLE ONLY public.orders ALTER COLUMN id SET DEFAULT nextval('public.orders_id_seq'::regclass);
ALTER TABLE ONLY public.person ALTER COLUMN id SET DEFAULT nextval('public.person_id_seq'::regclass);
COPY ext.note (id, body, tags) FROM stdin;
1	a	3
2	\N	3
\.
COPY public.audit (id, what, who, at, data, day, ref, ratio) FROM stdin;
1	orders INSERT	owner	2026-11-28 09:18:41.938153+00	\N	\N	13714fd7-6c92-43de-8ed2-179507e7330c	\N
2	orders INSERT	owner	2026-11-28 09:18:41.946196+00	\N	\N	1facbc7b-25bc-4d23-b2b3-0a52ac464575	\N
3	back\\slash\nline	owner	2026-11-28 09:18:41.947488+00	\\xdeadbeef	2024-02-29	f891cc6a-fb21-4daf-9f32-5f6db5ad883c	0.1
4	\N	owner	2026-11-28 09:18:41.947488+00	\N	\N	76f42ec9-2105-4c00-89bd-e704fc26f33e	NaN
\.
COPY public.customer (id, email, name, created, balance) FROM stdin;
3	c3@x.org	name 3	2026-11-28 09:18:41.930154+00	0.00
4	c4@x.org	name 4	2026-11-28 09:18:41.930154+00	0.00
5	c5@x.org	name 5	2026-11-28 09:18:41.930154+00	0.00
6	c6@x.org	name 6	2026-11-28 09:18:41.930154+00	0.00
7	c7@x.org	name 7	2026-11-28 09:18:41.930154+00	0.00
8	c8@x.org	name 8	2026-11-28 09:18:41.930154+00	0.00
9	c9@x.org	name 9	2026-11-28 09:18:41.930154+00	0.00
10	c10@x.org	name 10	2026-11-28 09:18:41.930154+00	0.00
11	c11@x.org	name 11	2026-11-28 09:18:41.930154+00	0.00
12	c12@x.org	name 12	2026-11-28 09:18:41.930154+00	0.00
13	c13@x.org	name 13	2026-11-28 09:18:41.930154+00	0.00
14	c14@x.org	name 14	2026-11-28 09:18:41.930154+00	0.00
15	c15@x.org	name 15	2026-11-28 09:18:41.930154+00	0.00
16	c16@x.org	name 16	2026-11-28 09:18:41.930154+00	0.00
17	c17@x.org	name 17	2026-11-28 09:18:41.930154+00	0.00
18	c18@x.org	name 18	2026-11-28 09:18:41.930154+00	0.00
19	c19@x.org	name 19	2026-11-28 09:18:41.930154+00	0.00
20	c20@x.org	name 20	2026-11-28 09:18:41.930154+00	0.00
21	c21@x.org	name 21	2026-11-28 09:18:41.930154+00	0.00
22	c22@x.org	name 22	2026-11-28 09:18:41.930154+00	0.00
23	c23@x.org	name 23	2026-11-28 09:18:41.930154+00	0.00
24	c24@x.org	name 24	2026-11-28 09:18:41.930154+00	0.00
25	c25@x.org	name 25	2026-11-28 09:18:41.930154+00	0.00
26	c26@x.org	name 26	2026-11-28 09:18:41.930154+00	0.00
27	c27@x.org	name 27	2026-11-28 09:18:41.930154+00	0.00
28	c28@x.org	name 28	2026-11-28 09:18:41.930154+00	0.00
29	c29@x.org	name 29	2026-11-28 09:18:41.930154+00	0.00
30	c30@x.org	name 30	2026-11-28 09:18:41.930154+00	0.00
31	c31@x.org	name 31	2026-11-28 09:18:41.930154+00	0.00
32	c32@x.org	name 32	2026-11-28 09:18:41.930154+00	0.00
33	c33@x.org	name 33	2026-11-28 09:18:41.930154+00	0.00
34	c34@x.org	name 34	2026-11-28 09:18:41.930154+00	0.00
35	c35@x.org	name 35	2026-11-28 09:18:41.930154+00	0.00
36	c36@x.org	name 36	2026-11-28 09:18:41.930154+00	0.00
37	c37@x.org	name 37	2026-11-28 09:18:41.930154+00	0.00
38	c38@x.org	name 38	2026-11-28 09:18:41.930154+00	0.00
39	c39@x.org	name 39	2026-11-28 09:18:41.930154+00	0.00
40	c40@x.org	name 40	2026-11-28 09:18:41.930154+00	0.00
41	c41@x.org	name 41	2026-11-28 09:18:41.930154+00	0.00
42	c42@x.org	name 42	2026-11-28 09:18:41.930154+00	0.00
43	c43@x.org	name 43	2026-11-28 09:18:41.930154+00	0.00
44	c44@x.org	name 44	2026-11-28 09:18:41.930154+00	0.00
45	c45@x.org	name 45	2026-11-28 09:18:41.930154+00	0.00
46	c46@x.org	name 46	2026-11-28 09:18:41.930154+00	0.00
47	c47@x.org	name 47	2026-11-28 09:18:41.930154+00	0.00
48	c48@x.org	name 48	2026-11-28 09:18:41.930154+00	0.00
49	c49@x.org	name 49	2026-11-28 09:18:41.930154+00	0.00
50	c50@x.org	name 50	2026-11-28 09:18:41.930154+00	0.00
1	c1@x.org	name 1	2026-11-28 09:18:41.930154+00	-9.00
2	c2@x.org	name 2	2026-11-28 09:18:41.930154+00	-4.50
\.
COPY public.line (order_id, pos, product_id, qty, price) FROM stdin;
1	1	2	3	3.00
2	1	3	1	4.50
\.
COPY public.orders (id, customer_id, at, status, note) FROM stdin;
1	1	2026-11-28 09:18:41.938153	0	\N
2	2	2026-11-28 09:18:41.946196	0	\N
\.
COPY public.person (id, name, feels, data, raw) FROM stdin;
1	a	happy	{"a": null, "b": [1, 2.50]}	{"x":  1}
2	b	sad	[]	\N
3	c	\N	"téxt"	[1 , 2]
\.
COPY public.product (id, sku, title, price, active) FROM stdin;
1	S1      	tab\there 1	1.50	t
2	S2      	tab\there 2	3.00	t
3	S3      	tab\there 3	4.50	t
4	S4      	tab\there 4	6.00	t
5	S5      	tab\there 5	7.50	t
6	S6      	tab\there 6	9.00	t
7	S7      	tab\there 7	10.50	t
8	S8      	tab\there 8	12.00	t
9	S9      	tab\there 9	13.50	t
10	S10     	tab\there 10	15.00	t
11	S11     	tab\there 11	16.50	t
12	S12     	tab\there 12	18.00	t
13	S13     	tab\there 13	19.50	t
14	S14     	tab\there 14	21.00	t
15	S15     	tab\there 15	22.50	t
16	S16     	tab\there 16	24.00	t
17	S17     	tab\there 17	25.50	t
18	S18     	tab\there 18	27.00	t
19	S19     	tab\there 19	28.50	t
20	S20     	tab\there 20	30.00	t
21	S21     	tab\there 21	31.50	t
22	S22     	tab\there 22	33.00	t
23	S23     	tab\there 23	34.50	t
24	S24     	tab\there 24	36.00	t
25	S25     	tab\there 25	37.50	t
26	S26     	tab\there 26	39.00	t
27	S27     	tab\there 27	40.50	t
28	S28     	tab\there 28	42.00	t
29	S29     	tab\there 29	43.50	t
30	S30     	tab\there 30	45.00	t
\.
SELECT pg_catalog.setval('ext.counter', 105, true);
SELECT pg_catalog.setval('public.audit_id_seq', 4, true);
SELECT pg_catalog.setval('public.customer_id_seq', 50, true);
SELECT pg_catalog.setval('public.orders_id_seq', 2, true);
SELECT pg_catalog.setval('public.person_id_seq', 3, true);
SELECT pg_catalog.setval('public.product_id_seq', 30, true);
ALTER TABLE ONLY ext.note
    ADD CONSTRAINT note_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.customer
    ADD CONSTRAINT customer_email_key UNIQUE (email);
ALTER TABLE ONLY public.customer
    ADD CONSTRAINT customer_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.line
    ADD CONSTRAINT line_pkey PRIMARY KEY (order_id, pos);
ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.person
    ADD CONSTRAINT person_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.product
    ADD CONSTRAINT product_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.product
    ADD CONSTRAINT product_sku_key UNIQUE (sku);
CREATE INDEX line_product ON public.line USING btree (product_id);
CREATE INDEX orders_customer ON public.orders USING btree (customer_id, at);
CREATE INDEX person_feels ON public.person USING btree (feels, name DESC) WHERE (feels <> 'sad'::public.mood);
CREATE TRIGGER orders_touch AFTER INSERT OR UPDATE ON public.orders FOR EACH ROW EXECUTE FUNCTION public.touch();
ALTER TABLE ONLY public.line
    ADD CONSTRAINT line_order_id_fkey FOREIGN KEY (order_id) REFERENCES public.orders(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.line
    ADD CONSTRAINT line_product_id_fkey FOREIGN KEY (product_id) REFERENCES public.product(id);
ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES public.customer(id) ON DELETE CASCADE;

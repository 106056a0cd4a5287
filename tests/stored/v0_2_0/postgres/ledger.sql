--
-- PostgreSQL database dump
--

\restrict I22XiWTrvquUAKthVfqdtBoCMIy8kA47xKmaC5epKUwJyIpjkAnO6goHcvKBjoH

-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: journal_only_grows(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.journal_only_grows() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the journal only grows'; END $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: accounts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.accounts (
    name text NOT NULL,
    parent text,
    owner text NOT NULL,
    unit text NOT NULL,
    filter text NOT NULL,
    spent text NOT NULL,
    status text NOT NULL,
    seq integer NOT NULL,
    mac text NOT NULL
);


--
-- Name: deniable_ledger_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.deniable_ledger_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: journal; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.journal (
    seq integer NOT NULL,
    "time" text NOT NULL,
    kind text NOT NULL,
    account text NOT NULL,
    analyst text NOT NULL,
    description text NOT NULL,
    loss text,
    unit text NOT NULL,
    details text NOT NULL,
    mac text NOT NULL
);


--
-- Name: ledger; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.ledger (
    id text NOT NULL,
    key_check text NOT NULL,
    form integer
);


--
-- Name: marks; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.marks (
    seq integer NOT NULL,
    state text NOT NULL,
    mac text NOT NULL
);


--
-- Name: readers; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.readers (
    key text NOT NULL,
    account text NOT NULL,
    mac text NOT NULL,
    entry text
);


--
-- Name: releases; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.releases (
    key text NOT NULL,
    entry text NOT NULL,
    loss text NOT NULL,
    delta text,
    private integer NOT NULL,
    content text NOT NULL,
    mac text NOT NULL,
    unit text
);


--
-- Name: requests; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.requests (
    key text NOT NULL,
    body text NOT NULL,
    entry integer NOT NULL
);


--
-- Data for Name: accounts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.accounts VALUES ('visits/ada', 'visits', 'olga', '{"kind":"row","replace":false}', '{"curve":[597117671823990208],"delta":"1/10000000","epsilon":"1","orders":[27.0,7.0,14.0,54.0,108.0,216.0],"reserve":"1/20000000"}', '{"delta":[0,1],"epsilon":[1,4],"impure":0,"renyi":[262691494887005257,184871338313787321,237256237699890709,275701830070619958,282024647721257983,285141943865319474]}', 'open', 4, '402d39762b05b109217a9a42065b378408c68d46780ca213153c0bdc9195d24c');
INSERT INTO public.accounts VALUES ('visits', NULL, 'olga', '{"kind":"row","replace":false}', '{"curve":[3871428645880911872],"delta":"1/1000000","epsilon":"5","orders":[8.0,2.0,4.0,16.0,32.0,64.0],"reserve":"1/2000000"}', '{"delta":[0,1],"epsilon":[3,4],"impure":0,"renyi":[695669869883166914,332350237989522278,534170886185632506,784018476927162060,825639956666936660,845475469858331544]}', 'open', 5, '644b6b40d9cd6089c8af0a4defa53425f5ee930ff2c0e58b11e9681780b6b7df');


--
-- Data for Name: deniable_ledger_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.deniable_ledger_version VALUES ('0005');


--
-- Data for Name: journal; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.journal VALUES (1, '2026-11-18T03:46:36.937848+00:00', 'create', 'visits', 'olga', 'Account of olga, limit ε = 4 at δ = 1e-06, protects one row, added or removed.', NULL, '{"kind":"row","replace":false}', '{"filter":{"curve":[2718507141274064896],"delta":"1/1000000","epsilon":"4","orders":[8.0,2.0,4.0,16.0,32.0,64.0],"reserve":"1/2000000"},"owner":"olga","parent":null}', '100f5e9ee2ff0ff42cbf11b5576545afe92046b59090b82c560ef3ece2bae863');
INSERT INTO public.journal VALUES (2, '2026-11-18T03:46:36.945730+00:00', 'create', 'visits/ada', 'olga', 'Account of olga, limit ε = 1 at δ = 1e-07, protects one row, added or removed.', NULL, '{"kind":"row","replace":false}', '{"filter":{"curve":[597117671823990208],"delta":"1/10000000","epsilon":"1","orders":[27.0,7.0,14.0,54.0,108.0,216.0],"reserve":"1/20000000"},"owner":"olga","parent":"visits"}', '21b0c7f7208b8309ff20dde3e5ef49f4e940f403f8c849ef894a8f44d22e79a0');
INSERT INTO public.journal VALUES (3, '2026-11-18T03:46:36.950754+00:00', 'run', 'visits', 'olga', 'Laplace', '{"node":"DiscreteLaplaceNoise","scale":2,"sensitivity":1}', '{"kind":"row","replace":false}', '{"charges":{"visits":{"delta":[0,1],"epsilon":[1,2],"impure":0,"renyi":[498469886123923836,262100901907004695,405702868009037642,540022529912677243,558829347476657606,567784981678933975]}},"private":true}', '800d8549d35872d47d1115eeca8b8a732d1a5afcf650ff1e722039c00c4ab2c5');
INSERT INTO public.journal VALUES (4, '2026-11-18T03:46:36.960413+00:00', 'run', 'visits/ada', 'ada', 'Laplace', '{"node":"DiscreteLaplaceNoise","scale":4,"sensitivity":1}', '{"kind":"row","replace":false}', '{"charges":{"visits":{"delta":[0,1],"epsilon":[1,4],"impure":0,"renyi":[197199983759243078,70249336082517583,128468018176594864,243995947014484817,266810609190279054,277690488179397569]},"visits/ada":{"delta":[0,1],"epsilon":[1,4],"impure":0,"renyi":[262691494887005257,184871338313787321,237256237699890709,275701830070619958,282024647721257983,285141943865319474]}},"private":true}', '5e6a323062dcdef35b7611417c622f24321ec927cae59a6cb38027a77acc3dd0');
INSERT INTO public.journal VALUES (5, '2026-11-18T03:46:36.962400+00:00', 'raise', 'visits', 'olga', 'Limit raised from ε = 4 at δ = 1e-06 to ε = 5 at δ = 1e-06.', NULL, '{"kind":"row","replace":false}', '{"filter":{"curve":[3871428645880911872],"delta":"1/1000000","epsilon":"5","orders":[8.0,2.0,4.0,16.0,32.0,64.0],"reserve":"1/2000000"}}', '8cecc138f3b315b3a31d9d429302e7709b4fc9d8c608662a02a2a76cedc9bf27');


--
-- Data for Name: ledger; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.ledger VALUES ('672e8c2e-abe7-43b4-8270-391905d6e939', 'ef1d4917b36999621fa0e594c0a3f610826fcd7eb826c8b11fafe27005470021', 1);


--
-- Data for Name: marks; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: readers; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.readers VALUES ('q1', 'visits', '5f353a4d89aea6e0fa3141b3277e8f7ca0e6a557f65373a71013e0d7d4bd4d15', '3:800d8549d35872d47d1115eeca8b8a732d1a5afcf650ff1e722039c00c4ab2c5');


--
-- Data for Name: releases; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.releases VALUES ('q1', '3:800d8549d35872d47d1115eeca8b8a732d1a5afcf650ff1e722039c00c4ab2c5', '{"node":"DiscreteLaplaceNoise","scale":2,"sensitivity":1}', NULL, 1, 'the first answer', '44fd98233e524d458370b81bb3d22c38fd534c12b000fab27235ad849bf873ba', '{"kind":"row","replace":false}');


--
-- Data for Name: requests; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Name: accounts accounts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (name);


--
-- Name: deniable_ledger_version deniable_ledger_version_pkc; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.deniable_ledger_version
    ADD CONSTRAINT deniable_ledger_version_pkc PRIMARY KEY (version_num);


--
-- Name: journal journal_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.journal
    ADD CONSTRAINT journal_pkey PRIMARY KEY (seq);


--
-- Name: ledger ledger_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (id);


--
-- Name: marks marks_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.marks
    ADD CONSTRAINT marks_pkey PRIMARY KEY (seq);


--
-- Name: readers readers_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.readers
    ADD CONSTRAINT readers_pkey PRIMARY KEY (key, account);


--
-- Name: releases releases_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_pkey PRIMARY KEY (key);


--
-- Name: requests requests_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (key);


--
-- Name: journal journal_only_grows; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER journal_only_grows BEFORE DELETE OR UPDATE OR TRUNCATE ON public.journal FOR EACH STATEMENT EXECUTE FUNCTION public.journal_only_grows();


--
-- PostgreSQL database dump complete
--

\unrestrict I22XiWTrvquUAKthVfqdtBoCMIy8kA47xKmaC5epKUwJyIpjkAnO6goHcvKBjoH


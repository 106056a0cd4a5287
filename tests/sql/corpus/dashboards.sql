-- Texts as dashboards write them (the shapes of Metabase, Superset, Tableau, Looker, Power BI, Grafana and Redash) over a web shop: people are protected.

SELECT COUNT(*) AS "count" FROM "PUBLIC"."ORDERS"

SELECT COUNT(*) AS "count" FROM "public"."orders" WHERE "public"."orders"."total" > 100

SELECT SUM("public"."orders"."total") AS "sum" FROM "public"."orders"

SELECT CAST(DATE_TRUNC('month', "public"."orders"."created_at") AS date) AS "created_at", COUNT(*) AS "count"
FROM "public"."orders" GROUP BY CAST(DATE_TRUNC('month', "public"."orders"."created_at") AS date)
ORDER BY CAST(DATE_TRUNC('month', "public"."orders"."created_at") AS date) ASC

SELECT DATE_TRUNC('month', "public"."orders"."created_at") AS "created_at", SUM("public"."orders"."subtotal") AS "sum"
FROM "public"."orders" WHERE "public"."orders"."created_at" >= timestamp '2022-01-01 00:00:00.000'
  AND "public"."orders"."created_at" < timestamp '2023-01-01 00:00:00.000'
GROUP BY DATE_TRUNC('month', "public"."orders"."created_at") ORDER BY DATE_TRUNC('month', "public"."orders"."created_at") ASC

SELECT "Products"."category" AS "Products__category", SUM("public"."orders"."total") AS "sum" FROM "public"."orders"
LEFT JOIN "public"."products" AS "Products" ON "public"."orders"."product_id" = "Products"."id"
GROUP BY "Products"."category" ORDER BY "sum" DESC, "Products"."category" ASC

SELECT "source"."created_at" AS "created_at", "source"."category" AS "category", COUNT(*) AS "count"
FROM (SELECT DATE_TRUNC('year', "public"."orders"."created_at") AS "created_at", "Products"."category" AS "category"
  FROM "public"."orders" LEFT JOIN "public"."products" AS "Products" ON "public"."orders"."product_id" = "Products"."id") AS "source"
GROUP BY "source"."created_at", "source"."category" ORDER BY "source"."created_at" ASC, "source"."category" ASC

SELECT "source"."category" AS "category", AVG("source"."total") AS "avg"
FROM (SELECT "public"."orders".*, "p"."category" AS "category" FROM "public"."orders" JOIN "public"."products" "p" ON "p"."id" = "public"."orders"."product_id") AS "source"
GROUP BY "source"."category"

SELECT COUNT(DISTINCT "public"."orders"."user_id") AS "count" FROM "public"."orders"

SELECT "public"."people"."source" AS "source", COUNT(*) AS "count" FROM "public"."people" GROUP BY "public"."people"."source" ORDER BY "public"."people"."source" ASC

SELECT "People"."source" AS "People__source", COUNT(*) AS "count" FROM "public"."orders"
LEFT JOIN "public"."people" AS "People" ON "public"."orders"."user_id" = "People"."id" GROUP BY "People"."source"

SELECT FLOOR((("public"."orders"."total" - 0.0) / 20.0)) * 20.0 + 0.0 AS "total", COUNT(*) AS "count" FROM "public"."orders"
GROUP BY FLOOR((("public"."orders"."total" - 0.0) / 20.0)) * 20.0 + 0.0 ORDER BY "total" ASC

SELECT COUNT(*) AS "count" FROM "public"."orders"
WHERE "public"."orders"."created_at" >= CAST((CAST(now() AS timestamp) + (INTERVAL '-30 day')) AS date)
  AND "public"."orders"."created_at" < CAST(now() AS date)

SELECT SUM(CASE WHEN "public"."orders"."discount" > 0 THEN 1 ELSE 0.0 END) AS "discounted", AVG("public"."orders"."quantity") AS "avg" FROM "public"."orders"

SELECT "source"."x" AS "x", SUM("source"."count") AS "sum" FROM (SELECT "public"."people"."source" AS "x", COUNT(*) AS "count"
  FROM "public"."people" GROUP BY "public"."people"."source") AS "source" GROUP BY "source"."x"

SELECT "source"."source" AS "source", "source"."count" AS "count" FROM (SELECT "public"."people"."source" AS "source", COUNT(*) AS "count"
  FROM "public"."people" GROUP BY "public"."people"."source") AS "source" WHERE "source"."count" > 10 LIMIT 1048575

SELECT extract(dow from "public"."orders"."created_at") + 1 AS "created_at", COUNT(*) AS "count" FROM "public"."orders"
GROUP BY extract(dow from "public"."orders"."created_at") + 1 ORDER BY "created_at" ASC

SELECT COUNT(*) FILTER (WHERE "public"."orders"."discount" IS NOT NULL) AS "with discount", COUNT(*) AS "all" FROM "public"."orders"

SELECT "public"."people"."state" AS "state", COUNT(*) AS "count" FROM "public"."people"
WHERE ("public"."people"."source" = 'Google' OR "public"."people"."source" = 'Organic') AND (NOT (LOWER("public"."people"."email") LIKE '%@example.com') OR ("public"."people"."email" IS NULL))
GROUP BY "public"."people"."state" ORDER BY "count" DESC LIMIT 100

SELECT source AS source, COUNT(*) AS count FROM public.people GROUP BY source ORDER BY count DESC LIMIT 1000

SELECT DATE_TRUNC('day', created_at) AS __timestamp, SUM(total) AS "SUM(total)" FROM public.orders
WHERE created_at >= '2022-01-01 00:00:00.000000' AND created_at < '2022-04-01 00:00:00.000000'
GROUP BY DATE_TRUNC('day', created_at) ORDER BY "SUM(total)" DESC LIMIT 10000

SELECT DATE_TRUNC('month', created_at) AS created_at, category AS category, sum(total) AS "SUM(total)"
FROM (SELECT o.created_at, o.total, p.category FROM orders o JOIN products p ON p.id = o.product_id) AS virtual_table
WHERE created_at >= TO_TIMESTAMP('2022-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY DATE_TRUNC('month', created_at), category LIMIT 1000

SELECT category AS category, COUNT(DISTINCT user_id) AS "COUNT_DISTINCT(user_id)", AVG(total) AS "AVG(total)"
FROM (SELECT o.*, p.category FROM orders AS o LEFT JOIN products AS p ON o.product_id = p.id) AS virtual_table
GROUP BY category ORDER BY "AVG(total)" DESC LIMIT 50000

SELECT source AS source, count(*) AS "COUNT(*)" FROM people WHERE source IN ('Google', 'Facebook') AND birth_date >= TO_DATE('1970-01-01', 'YYYY-MM-DD') GROUP BY source ORDER BY "COUNT(*)" DESC

SELECT "orders"."status" AS "status", SUM("orders"."total") AS "sum:total:ok" FROM "public"."orders" "orders" GROUP BY 1

SELECT (EXTRACT(YEAR FROM "orders"."created_at")) AS "yr:created_at:ok", SUM("orders"."total") AS "sum:total:ok", COUNT(1) AS "cnt:orders:ok"
FROM "public"."orders" "orders" INNER JOIN "public"."products" "products" ON ("orders"."product_id" = "products"."id")
WHERE ("products"."category" = 'Gadget') GROUP BY 1

SELECT (CASE WHEN ("orders"."total" > 100) THEN 'Large' ELSE 'Small' END) AS "Calculation_1", AVG(CAST("orders"."quantity" AS DOUBLE PRECISION)) AS "avg:quantity:ok"
FROM "public"."orders" "orders" GROUP BY 1

SELECT CAST(DATE_TRUNC('QUARTER', CAST("orders"."created_at" AS DATE)) AS DATE) AS "tqr:created_at:ok", SUM(1) AS "sum:Number of Records:ok"
FROM "public"."orders" "orders" WHERE (CAST("orders"."created_at" AS DATE) >= DATE '2021-01-01') GROUP BY 1

SELECT SUM("t0"."total") AS "X_measure__0" FROM "public"."orders" "t0" INNER JOIN (SELECT "people"."id" AS "id" FROM "public"."people" "people" WHERE "people"."source" = 'Google' GROUP BY 1) "t1" ON ("t0"."user_id" = "t1"."id")

SELECT orders.status AS "orders.status", COUNT(*) AS "orders.count", COALESCE(SUM(orders.total), 0) AS "orders.total_revenue"
FROM public.orders AS orders GROUP BY 1 ORDER BY 2 DESC LIMIT 500

SELECT (TO_CHAR(DATE_TRUNC('month', orders.created_at), 'YYYY-MM')) AS "orders.created_month", COUNT(DISTINCT orders.user_id) AS "orders.buyers"
FROM public.orders AS orders WHERE ((( orders.created_at ) >= ((DATE_TRUNC('year', DATE '2022-06-01'))) AND ( orders.created_at ) < ((DATE_TRUNC('year', DATE '2022-06-01') + INTERVAL '1 year'))))
GROUP BY (DATE_TRUNC('month', orders.created_at)) ORDER BY 1 DESC LIMIT 500

SELECT products.category AS "products.category", AVG(orders.total) AS "orders.average_total", COUNT(DISTINCT people.id) AS "people.count"
FROM public.orders AS orders LEFT JOIN public.products AS products ON orders.product_id = products.id
LEFT JOIN public.people AS people ON orders.user_id = people.id
WHERE (people.state = 'CA' OR people.state = 'NY') AND (orders.status IS NOT NULL) GROUP BY 1 HAVING NOT (AVG(orders.total) IS NULL) ORDER BY 2 DESC LIMIT 500

SELECT CASE WHEN people.age < 20 THEN '0' WHEN people.age >= 20 AND people.age < 40 THEN '1' WHEN people.age >= 40 THEN '2' ELSE 'z' END AS "people.age_tier__sort_",
  CASE WHEN people.age < 20 THEN 'Below 20' WHEN people.age >= 20 AND people.age < 40 THEN '20 to 39' WHEN people.age >= 40 THEN '40 or Above' ELSE 'Undefined' END AS "people.age_tier",
  COUNT(*) AS "people.count" FROM public.people AS people GROUP BY 1, 2 ORDER BY 1

WITH order_facts AS (SELECT user_id, COUNT(*) AS lifetime_orders, SUM(total) AS lifetime_revenue FROM orders GROUP BY 1)
SELECT order_facts.lifetime_orders AS "n", COUNT(*) AS "people" FROM people LEFT JOIN order_facts ON people.id = order_facts.user_id GROUP BY 1 ORDER BY 1

select "_"."status", sum("_"."total") as "a0" from (select "status", "total" from "public"."orders" "$Table") "_" group by "status" limit 1000001

select "rows"."status" as "status", count(1) as "Count" from (select "_"."id", "_"."status" from "public"."orders" "_" where "_"."created_at" >= timestamp '2021-01-01 00:00:00') "rows" group by "status"

-- refused: could not be read
SELECT $__timeGroup(created_at, '1h') FROM orders

SELECT date_trunc('hour', created_at) AS "time", status AS metric, count(*) AS value FROM orders
WHERE created_at BETWEEN '2022-03-01T00:00:00Z' AND '2022-03-08T00:00:00Z' GROUP BY 1, 2 ORDER BY 1, 2

SELECT floor(extract(epoch from created_at)/3600)*3600 AS "time", count(*) AS value FROM orders
WHERE extract(epoch from created_at) >= 1646092800 AND extract(epoch from created_at) <= 1646697600 GROUP BY 1 ORDER BY 1

SELECT date_bin('15 minutes', created_at, TIMESTAMP '2001-01-01') AS bin, SUM(total) FROM orders GROUP BY 1

SELECT status, percentile_disc(0.5) WITHIN GROUP (ORDER BY total) AS median_total FROM orders GROUP BY status

SELECT date_trunc('week', o.created_at) AS week, COUNT(*) FILTER (WHERE o.status = 'refunded')::float / NULLIF(COUNT(*), 0) AS refund_rate
FROM orders o GROUP BY 1 ORDER BY 1

SELECT p.category, p.vendor, SUM(o.quantity) AS units, RANK() OVER (PARTITION BY p.category ORDER BY SUM(o.quantity) DESC) AS rank
FROM orders o JOIN products p ON o.product_id = p.id GROUP BY p.category, p.vendor

WITH monthly AS (SELECT date_trunc('month', created_at) AS m, SUM(total) AS revenue FROM orders GROUP BY 1)
SELECT m, revenue, revenue / LAG(revenue) OVER (ORDER BY m) - 1 AS growth FROM monthly ORDER BY m

WITH monthly AS (SELECT extract(year FROM created_at) AS y, extract(month FROM created_at) AS mo, SUM(total) AS revenue FROM orders GROUP BY 1, 2)
SELECT a.y, a.mo, a.revenue, b.revenue AS last_year FROM monthly a LEFT JOIN monthly b ON a.mo = b.mo AND a.y = b.y + 1

SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM orders o WHERE o.user_id = p.id) >= 2

SELECT p.source, AVG(LEAST((SELECT COUNT(*) FROM orders o WHERE o.user_id = p.id), 20)) AS orders_per_person FROM people p GROUP BY p.source

WITH firsts AS (SELECT user_id, date_trunc('month', MIN(created_at)) AS cohort FROM orders GROUP BY user_id),
  activity AS (SELECT DISTINCT user_id, date_trunc('month', created_at) AS active FROM orders)
SELECT f.cohort, date_diff('month', f.cohort, a.active) AS month_number, COUNT(*) AS users
FROM firsts f JOIN activity a ON a.user_id = f.user_id GROUP BY 1, 2 ORDER BY 1, 2

SELECT AVG(rating) AS rating, COUNT(*) AS n FROM reviews r JOIN orders o ON o.user_id = r.user_id AND o.product_id = r.product_id

SELECT p.source, COUNT(DISTINCT r.user_id) AS reviewers, COUNT(DISTINCT o.user_id) AS buyers
FROM people p LEFT JOIN reviews r ON r.user_id = p.id LEFT JOIN orders o ON o.user_id = p.id GROUP BY p.source

SELECT COUNT(*) FROM orders WHERE created_at >= date_trunc('month', CURRENT_DATE) - INTERVAL '1 month'

-- refused: now() is another moment each time
SELECT COUNT(*) FROM orders WHERE created_at > now() - INTERVAL '24 hours'

-- refused: LIMIT inside a subquery
SELECT COUNT(*) AS "count" FROM (SELECT "public"."orders"."id" AS "id" FROM "public"."orders" LIMIT 1048575) AS "source"

-- refused: neither grouped
SELECT "public"."orders"."id" AS "id", "public"."orders"."total" AS "total" FROM "public"."orders" LIMIT 1048575

-- refused: SELECT * is not answered
SELECT * FROM "public"."orders" LIMIT 2000

-- refused: A name in another schema
SELECT COUNT(*) FROM information_schema.tables

-- refused: A name in another schema
SELECT table_name FROM information_schema.columns WHERE table_schema = 'public'

-- refused: DISTINCT ON is not answered
SELECT DISTINCT ON (user_id) created_at FROM orders ORDER BY user_id, created_at DESC

SELECT DISTINCT status FROM orders ORDER BY status

SELECT MAX(created_at) AS "last order" FROM orders

SELECT `status`, COUNT(*) AS `n` FROM `orders` GROUP BY `status`

SELECT COUNT(*) FROM orders WHERE status = ANY (ARRAY['paid', 'open'])

SELECT COUNT(*) FROM orders o JOIN people p ON o.user_id = p.id WHERE (o.status, p.source) IN (('paid', 'Google'), ('open', 'Organic'))

SELECT CONCAT('Q', quarter(created_at), ' ', year(created_at)) AS quarter, SUM(total) FROM orders GROUP BY 1

SELECT COUNT(*) FROM (SELECT user_id FROM orders UNION SELECT user_id FROM reviews) t

SELECT COUNT(*) FROM (SELECT user_id FROM orders INTERSECT SELECT user_id FROM reviews) t

-- missing: SUBSTRING expects where it begins
SELECT SUBSTRING(email FROM POSITION('@' IN email) + 1) AS domain, COUNT(*) FROM people GROUP BY 1

SELECT DISTINCT p.category FROM products p JOIN orders o ON o.product_id = p.id

SELECT date_diff('day', MIN(created_at), MAX(created_at)) AS days FROM orders

SELECT p.source, AVG(LEAST(l.n, 20)) AS orders FROM people p CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM orders o WHERE o.user_id = p.id) l GROUP BY p.source

SELECT p.source, AVG(CASE WHEN b.user_id IS NOT NULL THEN 1.0 ELSE 0 END) AS buyers
FROM people p LEFT JOIN (SELECT DISTINCT user_id FROM orders WHERE status = 'paid') b ON b.user_id = p.id GROUP BY p.source

SELECT d::date AS day, COUNT(o.id) FROM generate_series('2022-01-01'::date, '2022-01-31'::date, '1 day'::interval) d
LEFT JOIN orders o ON o.created_at::date = d::date GROUP BY 1 ORDER BY 1

WITH spine AS (SELECT unnest(generate_series(DATE '2022-01-01', DATE '2022-12-01', INTERVAL '1 month'))::date AS m)
SELECT s.m, COUNT(o.id) AS n FROM spine s LEFT JOIN orders o ON CAST(date_trunc('month', o.created_at) AS DATE) = s.m GROUP BY s.m ORDER BY s.m

SELECT v.name, COUNT(*) FROM (VALUES ('paid', 'Paid'), ('open', 'Not yet paid')) AS v(code, name) JOIN orders o ON o.status = v.code GROUP BY v.name

SELECT extract(epoch from date_trunc('hour', created_at)) AS time, avg(total) AS value FROM orders GROUP BY 1 ORDER BY 1

SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM orders e WHERE e.user_id = o.user_id AND e.created_at < o.created_at)

SELECT "public"."orders"."status" AS "status", COUNT(*) AS "count" FROM "public"."orders" GROUP BY "public"."orders"."status" ORDER BY "public"."orders"."status" ASC

SELECT DATE_TRUNC('month', "orders"."created_at") AS "created_at", SUM("orders"."total") AS "sum" FROM "orders" WHERE ("orders"."created_at" >= timestamp '2022-01-01 00:00:00.000') AND ("orders"."created_at" < timestamp '2023-01-01 00:00:00.000') GROUP BY DATE_TRUNC('month', "orders"."created_at") ORDER BY DATE_TRUNC('month', "orders"."created_at") ASC

SELECT CAST(DATE_TRUNC('day', "source"."created_at") AS date) AS "created_at", COUNT(*) AS "count" FROM (SELECT "orders"."created_at" AS "created_at", "orders"."status" AS "status" FROM "orders" WHERE "orders"."status" <> 'open') AS "source" GROUP BY 1 ORDER BY 1 ASC LIMIT 2000

SELECT "People"."source" AS "People__source", AVG("orders"."total") AS "avg" FROM "orders" LEFT JOIN "people" AS "People" ON "orders"."user_id" = "People"."id" GROUP BY "People"."source" ORDER BY "avg" DESC, "People"."source" ASC

SELECT "Products"."category" AS "Products__category", COUNT(DISTINCT "orders"."user_id") AS "count", SUM("orders"."quantity") AS "sum" FROM "orders" LEFT JOIN "products" AS "Products" ON "orders"."product_id" = "Products"."id" GROUP BY "Products"."category" LIMIT 1001

SELECT ((FLOOR((("orders"."total" - 0.0) / 50.0)) * 50.0) + 0.0) AS "total", COUNT(*) AS "count" FROM "orders" GROUP BY ((FLOOR((("orders"."total" - 0.0) / 50.0)) * 50.0) + 0.0) ORDER BY 1

SELECT (CAST(extract(dow from "orders"."created_at") AS integer) + 1) AS "day_of_week", COUNT(*) AS "count" FROM "orders" GROUP BY (CAST(extract(dow from "orders"."created_at") AS integer) + 1) ORDER BY 1

SELECT SUM(CASE WHEN "orders"."status" = 'refunded' THEN 1 ELSE 0.0 END) / COUNT(*) AS "refund share" FROM "orders"

SELECT status AS status, COUNT(*) AS count FROM orders WHERE created_at >= '2022-01-01T00:00:00.000000' AND created_at < '2022-07-01T00:00:00.000000' GROUP BY status ORDER BY count DESC LIMIT 50000

-- missing: A released result and private rows are not read together
SELECT DATE_TRUNC('day', created_at) AS __timestamp, status AS status, sum(total) AS "SUM(total)" FROM orders JOIN (SELECT status AS status__, sum(total) AS mme_inner__ FROM orders GROUP BY status ORDER BY mme_inner__ DESC LIMIT 2) AS series_limit ON status = status__ GROUP BY DATE_TRUNC('day', created_at), status ORDER BY "SUM(total)" DESC LIMIT 10000

SELECT "virtual_table"."category" AS "category", COUNT(*) AS "count" FROM (SELECT p.category, o.total FROM orders o JOIN products p ON p.id = o.product_id) AS "virtual_table" GROUP BY "virtual_table"."category" ORDER BY "count" DESC LIMIT 1000

SELECT CAST(EXTRACT(YEAR FROM "orders"."created_at") AS INTEGER) AS "yr:created_at:ok", SUM("orders"."total") AS "sum:total:ok" FROM "orders" "orders" GROUP BY 1

SELECT "orders"."status" AS "status", SUM("orders"."total") AS "sum:total:ok", COUNT("orders"."id") AS "cnt:id:ok" FROM "orders" "orders" WHERE ("orders"."status" IN ('paid', 'refunded')) GROUP BY "orders"."status" HAVING (COUNT(1) > 0)

SELECT "t0"."status", "t0"."a0" AS "a0" FROM (SELECT "status", SUM("total") AS "a0" FROM "orders" GROUP BY "status") AS "t0" WHERE NOT "t0"."a0" IS NULL LIMIT 1000001

select "rows"."source" as "source", count(distinct "rows"."id") as "a0" from (select "id", "source", "age" from "people" as "$Table" where "age" >= 18) "rows" group by "source"

SELECT people.source AS "people.source", COUNT(DISTINCT people.id) AS "people.count", COALESCE(SUM(orders.total), 0) AS "orders.total_revenue" FROM orders AS orders LEFT JOIN people AS people ON orders.user_id = people.id GROUP BY 1 ORDER BY 3 DESC LIMIT 500

SELECT (DATE_FORMAT(orders.created_at, '%Y-%m')) AS "orders.created_month", COUNT(*) AS "orders.count" FROM orders GROUP BY 1 ORDER BY 1 DESC LIMIT 500

SELECT (TO_CHAR(DATE_TRUNC('month', orders.created_at), 'YYYY-MM')) AS "orders.created_month", COUNT(*) AS "orders.count" FROM orders GROUP BY (DATE_TRUNC('month', orders.created_at)) ORDER BY 1 DESC FETCH NEXT 500 ROWS ONLY

SELECT * FROM (SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) AS z___pivot_row_rank FROM (SELECT *, MIN(n) OVER (PARTITION BY status) AS z___min_rank FROM (SELECT status, date_trunc('month', created_at) AS m, COUNT(*) AS n FROM orders GROUP BY 1, 2) ww) bb) aa WHERE z___pivot_row_rank <= 500

SELECT CASE WHEN "orders"."total" >= 0 AND "orders"."total" < 50 THEN 'T01' WHEN "orders"."total" >= 50 AND "orders"."total" < 200 THEN 'T02' ELSE 'T03' END AS "total_tier", COUNT(*) FROM "orders" GROUP BY 1

-- refused: The query could not be read near line 1, column 36, at "'1h'"
SELECT $__timeGroup(created_at, '1h') AS time, COUNT(*) FROM orders GROUP BY 1

SELECT time_bucket(INTERVAL '1 day', created_at) AS time, status AS metric, COUNT(*) AS value FROM orders WHERE created_at BETWEEN '2022-03-01T00:00:00Z' AND '2022-04-01T00:00:00Z' GROUP BY 1, 2 ORDER BY 1

-- missing: CAST from FLOAT to TIMESTAMP is not answered
SELECT to_timestamp(floor(extract(epoch from created_at) / 3600) * 3600) AS time, COUNT(*) AS value FROM orders GROUP BY 1 ORDER BY 1

SELECT COUNT(1) AS "Number of Records" FROM "orders" "orders" HAVING COUNT(1) > 0

SELECT MIN("orders"."created_at") AS "min", MAX("orders"."created_at") AS "max" FROM "orders"

SELECT "products"."vendor", SUM("orders"."total") AS revenue, RANK() OVER (ORDER BY SUM("orders"."total") DESC) AS rnk FROM "orders" INNER JOIN "products" ON ("orders"."product_id" = "products"."id") GROUP BY "products"."vendor" QUALIFY rnk <= 10

SELECT p.category, AVG(r.rating) AS stars, COUNT(*) AS n FROM reviews r JOIN products p ON p.id = r.product_id GROUP BY p.category HAVING COUNT(*) >= 5 ORDER BY stars DESC

SELECT pe.state, SUM(o.total) AS total, SUM(o.discount) / NULLIF(SUM(o.subtotal), 0) AS discount_rate FROM orders o JOIN people pe ON pe.id = o.user_id WHERE o.status = 'paid' GROUP BY pe.state ORDER BY total DESC NULLS LAST LIMIT 10

SELECT date_part('year', age(DATE '2024-01-01', birth_date)) AS age, COUNT(*) FROM people GROUP BY 1

SELECT split_part(email, '@', 2) AS domain, COUNT(*) FROM people GROUP BY domain ORDER BY 2 DESC LIMIT 25

SELECT regexp_replace(email, '^.*@', '') AS domain, COUNT(*) AS n FROM people GROUP BY 1

SELECT CASE WHEN email ILIKE '%@gmail.com' THEN 'gmail' WHEN email ILIKE '%@yahoo.%' THEN 'yahoo' ELSE 'other' END AS mail, COUNT(*) FROM people GROUP BY 1

WITH base AS (SELECT o.user_id, MIN(o.created_at) AS first_order, MAX(o.created_at) AS last_order, COUNT(*) AS orders, SUM(o.total) AS ltv FROM orders o WHERE o.status = 'paid' GROUP BY o.user_id),
segmented AS (SELECT user_id, ltv, CASE WHEN orders >= 5 THEN 'loyal' WHEN orders >= 2 THEN 'repeat' ELSE 'once' END AS segment FROM base)
SELECT segment, COUNT(*) AS customers, AVG(ltv) AS mean_ltv, SUM(ltv) AS total_ltv FROM segmented GROUP BY segment ORDER BY total_ltv DESC

with source as (select * from orders), renamed as (select id as order_id, user_id as customer_id, created_at::date as order_date, status, total as amount from source),
final as (select customer_id, order_date, amount from renamed where status = 'paid')
select date_trunc('month', order_date) as order_month, sum(amount) as revenue, count(distinct customer_id) as customers, sum(amount) / count(distinct customer_id) as revenue_per_customer from final group by 1

with orders_enriched as (select o.*, p.category, pe.source from orders o left join products p on p.id = o.product_id left join people pe on pe.id = o.user_id)
select source, category, sum(total) as revenue from orders_enriched group by source, category order by revenue desc

with monthly as (select date_trunc('month', created_at) as month, status, sum(total) as revenue from orders group by 1, 2),
pivoted as (select month, sum(case when status = 'paid' then revenue end) as paid, sum(case when status = 'refunded' then revenue end) as refunded from monthly group by month)
select month, paid, refunded, refunded / nullif(paid, 0) as rate, lag(paid) over (order by month) as prev_paid from pivoted order by month

SELECT status, COUNT(*) AS n, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM orders) AS pct FROM orders GROUP BY status

SELECT 'orders' AS what, COUNT(*) AS n FROM orders UNION ALL SELECT 'people', COUNT(*) FROM people UNION ALL SELECT 'reviews', COUNT(*) FROM reviews

SELECT NTILE(4) OVER (ORDER BY SUM(total) DESC) AS quartile, product_id, SUM(total) AS revenue FROM orders GROUP BY product_id

SELECT COUNT(*) FROM people p LEFT JOIN orders o ON o.user_id = p.id WHERE o.id IS NULL

SELECT source, COUNT(*) AS people, SUM(has_order) AS buyers FROM (SELECT p.id, p.source, CASE WHEN EXISTS (SELECT 1 FROM orders o WHERE o.user_id = p.id) THEN 1 ELSE 0 END AS has_order FROM people p) t GROUP BY source

SELECT source, AVG(CASE WHEN o.cnt > 1 THEN 1.0 ELSE 0.0 END) AS repeat_rate FROM people p JOIN (SELECT user_id, COUNT(*) AS cnt FROM orders GROUP BY user_id) o ON o.user_id = p.id GROUP BY source

SELECT date_trunc('quarter', created_at) AS q, SUM(total) AS t, SUM(total) - LAG(SUM(total), 4) OVER (ORDER BY date_trunc('quarter', created_at)) AS yoy FROM orders GROUP BY 1

-- refused: STRING_AGG is not answered
SELECT string_agg(email, ', ') FROM people

-- refused: The unit of privacy "id" is never released
SELECT id, email FROM people WHERE age > 90

-- missing: A quantile expects one level from 0 to 1, written as a literal
SELECT MAX(total), MIN(total), AVG(total), VAR_POP(total), quantile_cont(total, [0.25, 0.5, 0.75]) FROM orders

SELECT ROUND(AVG(total), 2) AS avg_total, ROUND(AVG(quantity)::numeric, 1) AS avg_q, CAST(COUNT(*) AS VARCHAR) || ' orders' AS label FROM orders

SELECT status, SUM(total) AS s FROM orders GROUP BY status ORDER BY CASE status WHEN 'paid' THEN 0 WHEN 'open' THEN 1 ELSE 2 END

-- missing: ARG_MIN is not answered
SELECT first_status, COUNT(*) FROM (SELECT user_id, arg_min(status, created_at) AS first_status FROM orders GROUP BY user_id) f GROUP BY 1

SELECT DISTINCT status FROM orders

-- refused: SAMPLE is not answered
SELECT SUM(total) FROM orders TABLESAMPLE 10 PERCENT

SELECT status, COUNT(*) FROM orders GROUP BY status LIMIT 10 OFFSET 1

SELECT "public"."orders"."status" AS "status", COUNT(*) AS "count" FROM "public"."orders" WHERE ("public"."orders"."created_at" >= timestamp '2023-01-01 00:00:00' AND "public"."orders"."created_at" < timestamp '2024-01-01 00:00:00') GROUP BY "public"."orders"."status" ORDER BY "public"."orders"."status" ASC

SELECT "source"."status" AS "status", AVG("source"."total") AS "avg" FROM (SELECT "orders"."status" AS "status", "orders"."total" AS "total" FROM "orders" WHERE "orders"."total" > 10) AS "source" GROUP BY "source"."status" ORDER BY "source"."status" ASC LIMIT 2000

SELECT CAST(date_trunc('month', "orders"."created_at") AS date) AS "created_at", SUM("orders"."total") AS "sum" FROM "orders" GROUP BY CAST(date_trunc('month', "orders"."created_at") AS date) ORDER BY CAST(date_trunc('month', "orders"."created_at") AS date) ASC

SELECT ((floor((("orders"."total" - 0.0) / 50.0)) * 50.0) + 0.0) AS "total", COUNT(*) AS "count" FROM "orders" GROUP BY ((floor((("orders"."total" - 0.0) / 50.0)) * 50.0) + 0.0) ORDER BY 1 ASC

SELECT DATE_TRUNC('week', created_at) AS __timestamp, COUNT(DISTINCT user_id) AS "COUNT_DISTINCT(user_id)" FROM orders WHERE created_at >= '2023-01-01 00:00:00.000000' AND created_at < '2023-07-01 00:00:00.000000' GROUP BY DATE_TRUNC('week', created_at) ORDER BY "COUNT_DISTINCT(user_id)" DESC LIMIT 10000

SELECT SUM("orders"."total") AS "sum:total:ok", YEAR("orders"."created_at") AS "yr:created_at:ok" FROM "orders" "orders" GROUP BY 2

SELECT (CASE WHEN ("orders"."status" IN ('paid', 'open')) THEN 'active' ELSE 'other' END) AS "Group", (COUNT(DISTINCT "orders"."user_id")) AS "ctd:user_id:ok" FROM "orders" GROUP BY 1

SELECT people.source AS "people.source", COALESCE(SUM(orders.total), 0) AS "orders.total_revenue", COUNT(DISTINCT orders.user_id) AS "orders.users" FROM orders LEFT JOIN people ON orders.user_id = people.id GROUP BY 1 ORDER BY 2 DESC FETCH NEXT 500 ROWS ONLY

SELECT TO_CHAR(DATE_TRUNC('quarter', orders.created_at), 'YYYY-"Q"Q') AS q, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1

SELECT p.category, SUM(o.quantity) AS units, SUM(o.total) AS revenue, SUM(o.total) / NULLIF(SUM(o.quantity), 0) AS price FROM orders o JOIN products p ON p.id = o.product_id WHERE o.status = 'paid' GROUP BY p.category ORDER BY revenue DESC LIMIT 20

SELECT status, SUM(CASE WHEN EXTRACT(YEAR FROM created_at) = 2022 THEN total END) AS y2022, SUM(CASE WHEN EXTRACT(YEAR FROM created_at) = 2023 THEN total END) AS y2023 FROM orders GROUP BY status

SELECT month, revenue, revenue - LAG(revenue) OVER (ORDER BY month) AS delta, (revenue / LAG(revenue) OVER (ORDER BY month) - 1) * 100 AS growth FROM (SELECT date_trunc('month', created_at) AS month, SUM(total) AS revenue FROM orders WHERE created_at >= DATE '2023-01-01' AND created_at < DATE '2024-01-01' GROUP BY 1) m ORDER BY month

SELECT source, COUNT(*) AS users, AVG(orders_n) AS avg_orders FROM (SELECT p.id, p.source, COUNT(o.id) AS orders_n FROM people p LEFT JOIN orders o ON o.user_id = p.id GROUP BY p.id, p.source) u GROUP BY source

SELECT AVG(rating) AS stars, COUNT(*) AS reviews, COUNT(*) FILTER (WHERE rating = 5) AS fives FROM reviews WHERE product_id IN (SELECT id FROM products WHERE category = 'Gizmo')

SELECT CASE WHEN age < 18 THEN 'minor' WHEN age BETWEEN 18 AND 34 THEN 'young' WHEN age BETWEEN 35 AND 64 THEN 'mid' ELSE 'senior' END AS seg, COUNT(*) FROM people WHERE age IS NOT NULL GROUP BY seg

SELECT state, COUNT(*) AS n FROM people GROUP BY state HAVING COUNT(*) > 50 ORDER BY n DESC LIMIT 15

SELECT COUNT(*) FROM people WHERE lower(email) LIKE '%@gmail.com'

SELECT split_part(email, '@', 2) AS domain, COUNT(*) FROM people GROUP BY domain ORDER BY 2 DESC LIMIT 10

SELECT to_char(created_at, 'YYYY-MM') AS ym, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY to_char(created_at, 'YYYY-MM')) AS running FROM orders WHERE created_at >= '2023-01-01' AND created_at < '2023-07-01' GROUP BY 1

SELECT quantile_cont(total, 0.5) FILTER (WHERE status = 'paid') AS paid_median FROM orders

-- Orders of a wholesaler, after TPC-H: customers are protected, parts, suppliers and nations are public.

SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
  SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price, SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
  AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS count_order
FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus

SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10

SELECT o_orderpriority, COUNT(*) AS order_count FROM orders
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
  AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority ORDER BY o_orderpriority

SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
  AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY n_name ORDER BY revenue DESC

SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24

SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue
FROM (SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, EXTRACT(year FROM l_shipdate) AS l_year,
    l_extendedprice * (1 - l_discount) AS volume
  FROM supplier, lineitem, orders, customer, nation n1, nation n2
  WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey AND s_nationkey = n1.n_nationkey
    AND c_nationkey = n2.n_nationkey
    AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
    AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year

SELECT o_year, SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume) AS mkt_share
FROM (SELECT EXTRACT(year FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation
  FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
  WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
    AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA' AND s_nationkey = n2.n_nationkey
    AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31' AND p_type = 'ECONOMY ANODIZED STEEL') AS all_nations
GROUP BY o_year ORDER BY o_year

SELECT nation, o_year, SUM(amount) AS sum_profit
FROM (SELECT n_name AS nation, EXTRACT(year FROM o_orderdate) AS o_year,
    l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
  FROM part, supplier, lineitem, partsupp, orders, nation
  WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
    AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') AS profit
GROUP BY nation, o_year ORDER BY nation, o_year DESC

-- refused: The unit of privacy
SELECT c_custkey, c_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
  AND o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, n_name ORDER BY revenue DESC LIMIT 20

SELECT l_shipmode,
  SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
  SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
  AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
GROUP BY l_shipmode ORDER BY l_shipmode

SELECT c_count, COUNT(*) AS custdist
FROM (SELECT c_custkey, COUNT(o_orderkey) FROM customer LEFT OUTER JOIN orders
    ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
  GROUP BY c_custkey) AS c_orders (c_custkey, c_count)
GROUP BY c_count ORDER BY custdist DESC, c_count DESC

SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
  / SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH

-- refused: A subquery in an expression
SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container = 'MED BOX'
  AND l_quantity < (SELECT 0.2 * AVG(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)

SELECT o_orderpriority, SUM(l_quantity) FROM orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 100)
  AND o_orderkey = l_orderkey
GROUP BY o_orderpriority

SELECT SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem, part
WHERE (p_partkey = l_partkey AND p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
    AND l_quantity >= 1 AND l_quantity <= 1 + 10 AND p_size BETWEEN 1 AND 5
    AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
  OR (p_partkey = l_partkey AND p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
    AND l_quantity >= 10 AND l_quantity <= 10 + 10 AND p_size BETWEEN 1 AND 10
    AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')

SELECT cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal
FROM (SELECT SUBSTRING(c_phone FROM 1 FOR 2) AS cntrycode, c_acctbal FROM customer
  WHERE SUBSTRING(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17') AND c_acctbal > 0.00
    AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale
GROUP BY cntrycode ORDER BY cntrycode

-- refused: public tables only
SELECT p_brand, p_type, p_size, COUNT(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part
WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' GROUP BY p_brand, p_type, p_size

-- missing: whose values are private. Rare values are not released
WITH revenue (supplier_no, total_revenue) AS (
  SELECT l_suppkey, SUM(l_extendedprice * (1 - l_discount)) FROM lineitem
  WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH GROUP BY l_suppkey)
SELECT supplier_no, total_revenue FROM revenue WHERE total_revenue = (SELECT MAX(total_revenue) FROM revenue)

SELECT s_name, COUNT(*) AS numwait FROM supplier, lineitem l1, orders, nation
WHERE s_suppkey = l1.l_suppkey AND o_orderkey = l1.l_orderkey AND o_orderstatus = 'F' AND l1.l_receiptdate > l1.l_commitdate
  AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
  AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'
GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100

SELECT c_mktsegment, COUNT(DISTINCT c_custkey) AS customers, COUNT(o_orderkey) AS orders
FROM customer c LEFT JOIN orders o ON c.c_custkey = o.o_custkey GROUP BY c_mktsegment

SELECT c.c_mktsegment, AVG(o.o_totalprice) FROM orders o JOIN customer c ON o.o_custkey = c.c_custkey
WHERE o.o_orderstatus <> 'F' GROUP BY c.c_mktsegment HAVING COUNT(*) > 20

SELECT EXTRACT(year FROM o_orderdate) AS y, EXTRACT(quarter FROM o_orderdate) AS q, SUM(o_totalprice) AS total
FROM orders GROUP BY 1, 2 ORDER BY 1, 2

SELECT date_trunc('quarter', o_orderdate) AS quarter, COUNT(*) AS n, SUM(o_totalprice) / COUNT(*) AS mean
FROM orders WHERE o_orderdate BETWEEN '1995-01-01' AND '1996-12-31' GROUP BY 1 ORDER BY 1

SELECT n_name, COUNT(*) FROM customer JOIN nation ON c_nationkey = n_nationkey
JOIN region ON n_regionkey = r_regionkey WHERE r_name IN ('EUROPE', 'ASIA') GROUP BY n_name ORDER BY 2 DESC LIMIT 5

SELECT l_shipmode, AVG(date_diff('day', l_shipdate, l_receiptdate)) AS days_on_the_way FROM lineitem GROUP BY l_shipmode

SELECT l_shipmode, AVG(l_receiptdate - l_shipdate) AS days FROM lineitem GROUP BY l_shipmode ORDER BY days

SELECT COUNT(*) FILTER (WHERE l_receiptdate > l_commitdate) * 100.0 / COUNT(*) AS late_share FROM lineitem

SELECT l_shipmode, SUM(l_extendedprice) AS s, RANK() OVER (ORDER BY SUM(l_extendedprice) DESC) AS r
FROM lineitem GROUP BY l_shipmode

SELECT EXTRACT(year FROM o_orderdate) AS y, SUM(o_totalprice) AS total,
  SUM(SUM(o_totalprice)) OVER (ORDER BY EXTRACT(year FROM o_orderdate)) AS running
FROM orders GROUP BY 1 ORDER BY 1

WITH spend AS (SELECT o_custkey, SUM(o_totalprice) AS total, COUNT(*) AS n FROM orders GROUP BY o_custkey)
SELECT CASE WHEN n = 1 THEN 'once' WHEN n < 5 THEN 'some' ELSE 'often' END AS kind, COUNT(*) AS customers,
  AVG(LEAST(total, 2000000)) AS mean_spend
FROM spend GROUP BY 1

SELECT n_name, COUNT(DISTINCT c_custkey) AS customers FROM nation LEFT JOIN customer ON c_nationkey = n_nationkey
GROUP BY n_name ORDER BY n_name

SELECT AVG(n) FROM (SELECT c.c_custkey, COUNT(o.o_orderkey) AS n FROM customer c LEFT JOIN orders o ON o.o_custkey = c.c_custkey
  GROUP BY c.c_custkey) t

-- refused: The unit of privacy
SELECT c_name, c_custkey, SUM(o_totalprice) FROM customer JOIN orders ON c_custkey = o_custkey GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 10

SELECT COUNT(*) FROM customer WHERE c_custkey NOT IN (SELECT o_custkey FROM orders)

SELECT COUNT(*) FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.o_custkey = c.c_custkey AND o.o_totalprice > 100000)

SELECT c_mktsegment, COUNT(*) FROM customer
WHERE c_custkey IN (SELECT o_custkey FROM orders WHERE o_orderdate >= '1996-01-01') GROUP BY c_mktsegment

SELECT COUNT(*) FROM orders o
WHERE o.o_totalprice > (SELECT AVG(o2.o_totalprice) FROM orders o2 WHERE o2.o_custkey = o.o_custkey)

-- refused: A subquery in an expression
SELECT COUNT(*) FROM orders WHERE o_totalprice > (SELECT AVG(o_totalprice) FROM orders)

SELECT o_orderstatus, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct
FROM orders GROUP BY o_orderstatus

SELECT p_brand, SUM(l_quantity) AS q FROM lineitem INNER JOIN part ON part.p_partkey = lineitem.l_partkey
GROUP BY p_brand ORDER BY q DESC FETCH FIRST 5 ROWS ONLY

SELECT strftime(o_orderdate, '%Y-%m') AS month, COUNT(*) FROM orders GROUP BY month ORDER BY month

SELECT floor(o_totalprice / 50000) * 50000 AS bucket, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1

SELECT width_bucket(o_totalprice, 0, 500000, 10) AS b, COUNT(*) FROM orders GROUP BY b ORDER BY b

SELECT round(o_totalprice, -4) AS about, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1

SELECT o_orderpriority, MIN(o_orderdate) AS first_day, MAX(o_orderdate) AS last_day FROM orders GROUP BY 1

SELECT year(first_order) AS cohort, COUNT(*) AS customers
FROM (SELECT o_custkey, MIN(o_orderdate) AS first_order FROM orders GROUP BY o_custkey) f GROUP BY 1 ORDER BY 1

SELECT COUNT(*) FROM lineitem l JOIN orders o ON l.l_orderkey = o.o_orderkey
  JOIN customer c ON o.o_custkey = c.c_custkey WHERE c.c_acctbal < 0 AND l.l_returnflag = 'R'

SELECT o_clerk, COUNT(*) AS n FROM orders GROUP BY o_clerk ORDER BY n DESC LIMIT 20

SELECT APPROX_COUNT_DISTINCT(o_clerk) FROM orders

SELECT COUNT(*) FROM orders WHERE o_comment ILIKE '%urgent%' OR o_comment LIKE '%asap%'

-- refused: ANY_VALUE is not answered
SELECT o_orderpriority, ANY_VALUE(o_clerk) FROM orders GROUP BY o_orderpriority

-- refused: STRING_AGG is not answered
SELECT o_orderpriority, STRING_AGG(o_clerk, ', ') FROM orders GROUP BY 1

-- refused: joined on the unit of privacy
SELECT COUNT(*) FROM orders a JOIN orders b ON a.o_clerk = b.o_clerk

SELECT SUM(o_totalprice) AS revenue FROM main.orders WHERE o_orderdate::DATE >= '1997-01-01'::DATE

SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY o_totalprice) AS p50, PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY o_totalprice) AS p95
FROM orders

SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR GROUP BY n_name ORDER BY revenue DESC

SELECT o_orderpriority, COUNT(*) AS order_count FROM orders WHERE o_orderdate >= DATE '1994-07-01' AND o_orderdate < DATE '1994-07-01' + INTERVAL '3' MONTH
AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority ORDER BY o_orderpriority

SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) / SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'

WITH order_values AS (SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS value FROM lineitem GROUP BY l_orderkey)
SELECT AVG(value) AS mean_order_value FROM order_values

SELECT o_orderstatus, AVG(lines) FROM (SELECT o.o_orderkey, o.o_orderstatus, COUNT(*) AS lines FROM orders o JOIN lineitem l ON l.l_orderkey = o.o_orderkey GROUP BY o.o_orderkey, o.o_orderstatus) t GROUP BY o_orderstatus

SELECT c_mktsegment, COUNT(DISTINCT o_orderkey) AS orders, COUNT(*) AS lines FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON o_orderkey = l_orderkey GROUP BY c_mktsegment

SELECT EXTRACT(YEAR FROM o_orderdate) AS o_year, SUM(CASE WHEN n2.n_name = 'BRAZIL' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) / SUM(l_extendedprice * (1 - l_discount)) AS mkt_share
FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN supplier ON s_suppkey = l_suppkey JOIN nation n2 ON s_nationkey = n2.n_nationkey GROUP BY o_year ORDER BY o_year

SELECT l_shipmode, COUNT(*) FILTER (WHERE o_orderpriority IN ('1-URGENT', '2-HIGH')) AS high, COUNT(*) FILTER (WHERE o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) AS low
FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate GROUP BY l_shipmode

SELECT date_trunc('month', o_orderdate) AS month, COUNT(*) AS orders, COUNT(DISTINCT o_custkey) AS customers, SUM(o_totalprice) / COUNT(DISTINCT o_custkey) AS per_customer FROM orders GROUP BY 1

WITH numbered AS (SELECT o_custkey, o_totalprice, ROW_NUMBER() OVER (PARTITION BY o_custkey ORDER BY o_orderdate, o_orderkey) AS n FROM orders)
SELECT n AS order_number, COUNT(*) AS orders, AVG(o_totalprice) AS mean_price FROM numbered WHERE n <= 5 GROUP BY n ORDER BY n

SELECT SUM(o_totalprice) FROM (SELECT o_custkey, o_totalprice, RANK() OVER (PARTITION BY o_custkey ORDER BY o_totalprice DESC) AS r FROM orders) x WHERE r = 1

SELECT AVG(days) FROM (SELECT o_custkey, o_orderdate - LAG(o_orderdate) OVER (PARTITION BY o_custkey ORDER BY o_orderdate) AS days FROM orders) g WHERE days BETWEEN 0 AND 365

SELECT width_bucket(o_totalprice, 0, 500000, 10) AS bucket, COUNT(*) FROM orders GROUP BY bucket ORDER BY bucket

SELECT p_brand, SUM(l_quantity) AS q FROM lineitem JOIN part ON l_partkey = p_partkey WHERE p_size IN (1, 2, 3) AND p_container LIKE '%BOX' GROUP BY p_brand HAVING SUM(l_quantity) > 10 ORDER BY q DESC

SELECT AVG(l_receiptdate - l_shipdate) AS days FROM lineitem

SELECT l_returnflag, AVG(DATEDIFF('day', l_shipdate, l_receiptdate)) AS delay FROM lineitem GROUP BY l_returnflag

SELECT COUNT(*) AS late, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM lineitem) AS late_share FROM lineitem WHERE l_receiptdate > l_commitdate

SELECT c_mktsegment, SUM(CASE WHEN n_orders IS NULL THEN 1 ELSE 0 END) AS no_orders FROM customer LEFT JOIN (SELECT o_custkey, COUNT(*) AS n_orders FROM orders GROUP BY o_custkey) o ON c_custkey = o_custkey GROUP BY c_mktsegment

SELECT SUBSTRING(c_phone FROM 1 FOR 2) AS cntrycode, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal FROM customer WHERE c_acctbal > 0 AND NOT EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey) GROUP BY cntrycode

SELECT r_name, n_name, COUNT(*) AS customers FROM region LEFT JOIN nation ON n_regionkey = r_regionkey LEFT JOIN customer ON c_nationkey = n_nationkey GROUP BY ROLLUP (r_name, n_name)

SELECT strftime(o_orderdate, '%Y-Q') || CAST(quarter(o_orderdate) AS VARCHAR) AS q, COUNT(*) FROM orders GROUP BY 1

SELECT o_orderpriority, o_orderstatus, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS total, CUME_DIST() OVER (ORDER BY COUNT(*)) AS cd FROM orders GROUP BY 1, 2

SELECT o1.o_orderpriority, COUNT(*) FROM orders o1 JOIN orders o2 ON o1.o_custkey = o2.o_custkey AND o2.o_orderdate > o1.o_orderdate AND o2.o_orderdate <= o1.o_orderdate + INTERVAL 30 DAY GROUP BY 1

SELECT CASE WHEN regexp_matches(o_comment, 'special.*requests') THEN 'special' ELSE 'plain' END AS kind, COUNT(*) FROM orders GROUP BY 1

SELECT regexp_extract(o_clerk, '[0-9]+') AS clerk, COUNT(*) FROM orders GROUP BY 1

-- refused: The column "o_orderkey" is neither grouped nor inside an aggregate
SELECT o_orderkey, o_totalprice FROM orders ORDER BY o_totalprice DESC LIMIT 10

-- A star in the manner of TPC-DS: sales in stores and on the web of customers, who are protected; dates, items, stores and promotions are public.

SELECT dt.d_year, item.i_brand AS brand, SUM(ss_ext_sales_price) AS sum_agg FROM date_dim dt, store_sales, item
WHERE dt.d_date_sk = store_sales.ss_sold_date_sk AND store_sales.ss_item_sk = item.i_item_sk AND item.i_manufact_id = 3 AND dt.d_moy = 11
GROUP BY dt.d_year, item.i_brand ORDER BY dt.d_year, sum_agg DESC LIMIT 100

SELECT i_item_id, AVG(ss_quantity) agg1, AVG(ss_list_price) agg2, AVG(ss_coupon_amt) agg3, AVG(ss_sales_price) agg4
FROM store_sales, date_dim, item, promotion WHERE ss_sold_date_sk = d_date_sk AND ss_item_sk = i_item_sk AND ss_promo_sk = p_promo_sk
AND (p_channel_email = 'N' OR p_channel_event = 'N') AND d_year = 2000 GROUP BY i_item_id ORDER BY i_item_id LIMIT 100

SELECT d_year, i_category, SUM(ss_ext_sales_price) AS s FROM date_dim, store_sales, item
WHERE d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk AND d_moy = 12 GROUP BY d_year, i_category ORDER BY s DESC, d_year, i_category

SELECT s_store_name,
  SUM(CASE WHEN d_day_name = 'Sunday' THEN ss_sales_price ELSE NULL END) sun_sales,
  SUM(CASE WHEN d_day_name = 'Monday' THEN ss_sales_price ELSE NULL END) mon_sales,
  SUM(CASE WHEN d_day_name = 'Saturday' THEN ss_sales_price ELSE NULL END) sat_sales
FROM date_dim, store_sales, store WHERE d_date_sk = ss_sold_date_sk AND s_store_sk = ss_store_sk AND d_year = 2000
GROUP BY s_store_name ORDER BY s_store_name

SELECT i_class, i_category, SUM(ss_ext_sales_price) AS itemrevenue,
  SUM(ss_ext_sales_price) * 100 / SUM(SUM(ss_ext_sales_price)) OVER (PARTITION BY i_class) AS revenueratio
FROM store_sales, item, date_dim WHERE ss_item_sk = i_item_sk AND i_category IN ('Books', 'Home', 'Music') AND ss_sold_date_sk = d_date_sk
AND d_date BETWEEN CAST('1999-02-22' AS DATE) AND (CAST('1999-02-22' AS DATE) + INTERVAL '30' DAY)
GROUP BY i_class, i_category ORDER BY i_category, i_class, revenueratio

SELECT i_category, s_state, SUM(ss_net_profit) / SUM(ss_ext_sales_price) AS gross_margin, GROUPING(i_category) + GROUPING(s_state) AS lochierarchy
FROM store_sales, item, store WHERE ss_item_sk = i_item_sk AND ss_store_sk = s_store_sk GROUP BY ROLLUP (i_category, s_state)

SELECT SUM(ss_quantity) FROM store_sales JOIN store ON s_store_sk = ss_store_sk JOIN date_dim ON ss_sold_date_sk = d_date_sk
WHERE d_year = 1999 AND s_state IN ('TX', 'CA') AND (ss_sales_price BETWEEN 50 AND 100 OR ss_sales_price BETWEEN 150 AND 200)

WITH ss AS (SELECT i_category, SUM(ss_ext_sales_price) AS sales FROM store_sales JOIN item ON ss_item_sk = i_item_sk GROUP BY i_category),
ws AS (SELECT i_category, SUM(ws_ext_sales_price) AS sales FROM web_sales JOIN item ON ws_item_sk = i_item_sk GROUP BY i_category)
SELECT ss.i_category, ss.sales AS store, ws.sales AS web, ws.sales / ss.sales AS ratio FROM ss JOIN ws ON ss.i_category = ws.i_category

SELECT channel, SUM(sales) AS sales FROM (
  SELECT 'store' AS channel, ss_ext_sales_price AS sales FROM store_sales
  UNION ALL SELECT 'web' AS channel, ws_ext_sales_price AS sales FROM web_sales) x GROUP BY channel

SELECT channel, d_year, d_qoy, COUNT(*) AS sales_cnt, SUM(ext_sales_price) AS sales_amt FROM (
  SELECT 'store' AS channel, d_year, d_qoy, ss_ext_sales_price AS ext_sales_price FROM store_sales, date_dim WHERE ss_sold_date_sk = d_date_sk
  UNION ALL
  SELECT 'web' AS channel, d_year, d_qoy, ws_ext_sales_price FROM web_sales, date_dim WHERE ws_sold_date_sk = d_date_sk) foo
GROUP BY channel, d_year, d_qoy ORDER BY channel, d_year, d_qoy LIMIT 100

SELECT COUNT(*) FROM (
  SELECT DISTINCT ss_customer_sk FROM store_sales INTERSECT SELECT DISTINCT ws_bill_customer_sk FROM web_sales) cool_cust

SELECT COUNT(*) FROM (SELECT ss_customer_sk FROM store_sales EXCEPT SELECT ws_bill_customer_sk FROM web_sales) AS only_stores

SELECT c_birth_country, COUNT(DISTINCT c_customer_sk) AS buyers FROM customer JOIN store_sales ON c_customer_sk = ss_customer_sk GROUP BY c_birth_country

SELECT cnt, COUNT(*) AS customers FROM (
  SELECT ss_customer_sk, COUNT(DISTINCT ss_ticket_number) AS cnt FROM store_sales GROUP BY ss_customer_sk) x GROUP BY cnt ORDER BY cnt

WITH yearly AS (
  SELECT ss_customer_sk AS customer_sk, d_year, SUM(ss_ext_sales_price - ss_ext_discount_amt) AS year_total
  FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk GROUP BY ss_customer_sk, d_year)
SELECT d_year, AVG(year_total) AS mean_per_customer, COUNT(*) AS customers FROM yearly GROUP BY d_year ORDER BY d_year

WITH y AS (
  SELECT ss_customer_sk, SUM(CASE WHEN d_year = 2000 THEN ss_sales_price ELSE 0 END) AS y0, SUM(CASE WHEN d_year = 2001 THEN ss_sales_price ELSE 0 END) AS y1
  FROM store_sales, date_dim WHERE ss_sold_date_sk = d_date_sk GROUP BY ss_customer_sk)
SELECT COUNT(*) AS customers, SUM(CASE WHEN y1 > y0 THEN 1 ELSE 0 END) AS grew FROM y WHERE y0 > 0

SELECT * FROM (
  SELECT i_category, i_class, d_moy, SUM(ss_sales_price) AS sum_sales, AVG(SUM(ss_sales_price)) OVER (PARTITION BY i_category) AS avg_monthly_sales
  FROM item, store_sales, date_dim WHERE ss_item_sk = i_item_sk AND ss_sold_date_sk = d_date_sk AND d_year = 1999 GROUP BY i_category, i_class, d_moy) tmp1
WHERE CASE WHEN avg_monthly_sales <> 0 THEN ABS(sum_sales - avg_monthly_sales) / avg_monthly_sales ELSE NULL END > 0.1
ORDER BY sum_sales - avg_monthly_sales

SELECT i_category, i_class, rk, s FROM (
  SELECT i_category, i_class, SUM(ss_ext_sales_price) AS s, RANK() OVER (PARTITION BY i_category ORDER BY SUM(ss_ext_sales_price) DESC) AS rk
  FROM store_sales JOIN item ON ss_item_sk = i_item_sk GROUP BY 1, 2) t WHERE rk <= 3

SELECT s_state, COUNT(DISTINCT ss_customer_sk) AS customers, SUM(ss_net_profit) AS profit FROM store_sales JOIN store ON ss_store_sk = s_store_sk GROUP BY s_state HAVING SUM(ss_net_profit) > 0

SELECT c_preferred_cust_flag, AVG(ss_net_profit), STDDEV_SAMP(ss_net_profit) FROM store_sales, customer WHERE ss_customer_sk = c_customer_sk GROUP BY 1

SELECT FLOOR((2003 - c_birth_year) / 10) * 10 AS decade, COUNT(*) FROM customer GROUP BY 1 ORDER BY 1

SELECT i_category, SUM(ss_quantity) FILTER (WHERE d_dow IN (0, 6)) AS weekend, SUM(ss_quantity) FILTER (WHERE d_dow NOT IN (0, 6)) AS weekday
FROM store_sales ss INNER JOIN date_dim d ON ss.ss_sold_date_sk = d.d_date_sk INNER JOIN item i ON ss.ss_item_sk = i.i_item_sk GROUP BY i_category

SELECT i_brand, SUM(ss_ext_sales_price) FROM store_sales JOIN item ON ss_item_sk = i_item_sk
WHERE i_current_price > (SELECT AVG(i_current_price) * 1.2 FROM item) GROUP BY i_brand

SELECT COUNT(*) FROM store_sales s WHERE ss_quantity > (SELECT AVG(ss_quantity) FROM store_sales t WHERE t.ss_customer_sk = s.ss_customer_sk)

-- refused: A subquery in an expression reads public tables, or rows of the same unit of privacy, and nothing ties "store_sales" to the unit of the row
SELECT COUNT(*) FROM store_sales WHERE ss_ext_discount_amt > (SELECT 1.3 * AVG(ss_ext_discount_amt) FROM store_sales)

SELECT CASE WHEN (SELECT COUNT(*) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 20) > 100
  THEN (SELECT AVG(ss_ext_discount_amt) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 20)
  ELSE (SELECT AVG(ss_net_profit) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 20) END AS bucket1

SELECT i_category, SUM(CASE WHEN d_date < DATE '2000-03-11' THEN ss_quantity ELSE 0 END) AS before, SUM(CASE WHEN d_date >= DATE '2000-03-11' THEN ss_quantity ELSE 0 END) AS after
FROM store_sales, item, date_dim WHERE i_item_sk = ss_item_sk AND ss_sold_date_sk = d_date_sk
AND d_date BETWEEN DATE '2000-03-11' - INTERVAL 30 DAY AND DATE '2000-03-11' + INTERVAL 30 DAY GROUP BY i_category

SELECT d_year, d_moy, SUM(ss_ext_sales_price) AS sales, SUM(SUM(ss_ext_sales_price)) OVER (PARTITION BY d_year ORDER BY d_moy ROWS UNBOUNDED PRECEDING) AS ytd
FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk GROUP BY d_year, d_moy ORDER BY 1, 2

-- refused: The unit of privacy "c_customer_sk" cannot be a group: an answer would be about one person
SELECT c_last_name, c_first_name, SUM(ss_net_profit) FROM store_sales, customer WHERE ss_customer_sk = c_customer_sk GROUP BY c_last_name, c_first_name, c_customer_sk

-- missing: "PIVOT" is not answered: only a query that begins with SELECT or WITH is
PIVOT (SELECT s_state, d_qoy, ss_ext_sales_price FROM store_sales JOIN store ON ss_store_sk = s_store_sk JOIN date_dim ON ss_sold_date_sk = d_date_sk) ON d_qoy IN (1, 2, 3, 4) USING SUM(ss_ext_sales_price) GROUP BY s_state

SELECT i_category, COUNT(*) AS baskets FROM (SELECT DISTINCT ss_ticket_number, i_category, ss_customer_sk FROM store_sales JOIN item ON ss_item_sk = i_item_sk) t GROUP BY i_category

WITH first_store AS (
  SELECT ss_customer_sk, ss_store_sk, ROW_NUMBER() OVER (PARTITION BY ss_customer_sk ORDER BY ss_sold_date_sk, ss_ticket_number) AS rn FROM store_sales)
SELECT s.s_state, COUNT(*) AS new_customers FROM first_store f JOIN store s ON f.ss_store_sk = s.s_store_sk WHERE f.rn = 1 GROUP BY s.s_state

-- Product analytics: users, their events and subscriptions; the user is protected, plans are public.

SELECT date_trunc('day', occurred_at) AS day, COUNT(DISTINCT user_id) AS dau FROM events GROUP BY 1 ORDER BY 1

SELECT date_trunc('week', occurred_at)::date AS week, COUNT(DISTINCT user_id) AS wau FROM events
WHERE occurred_at >= '2022-01-01' AND occurred_at < '2022-07-01' GROUP BY 1 ORDER BY 1

WITH daily AS (SELECT occurred_at::date AS day, COUNT(DISTINCT user_id) AS dau FROM events GROUP BY 1)
SELECT day, dau, AVG(dau) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS dau_7d FROM daily ORDER BY day

-- missing: whose values are private. Rare values are not released
WITH dau AS (SELECT date_trunc('month', occurred_at) AS month, occurred_at::date AS day, COUNT(DISTINCT user_id) AS n FROM events GROUP BY 1, 2),
mau AS (SELECT date_trunc('month', occurred_at) AS month, COUNT(DISTINCT user_id) AS n FROM events GROUP BY 1)
SELECT mau.month, AVG(dau.n) / MAX(mau.n) AS stickiness FROM dau JOIN mau ON dau.month = mau.month GROUP BY mau.month ORDER BY 1

WITH funnel AS (
  SELECT user_id,
    MAX(CASE WHEN event_name = 'view' THEN 1 ELSE 0 END) AS viewed,
    MAX(CASE WHEN event_name = 'add_to_cart' THEN 1 ELSE 0 END) AS added,
    MAX(CASE WHEN event_name = 'purchase' THEN 1 ELSE 0 END) AS bought
  FROM events GROUP BY user_id)
SELECT SUM(viewed) AS viewed, SUM(added) AS added, SUM(bought) AS bought, SUM(bought) * 1.0 / NULLIF(SUM(viewed), 0) AS conversion FROM funnel

WITH steps AS (
  SELECT user_id,
    MIN(CASE WHEN event_name = 'view' THEN occurred_at END) AS t_view,
    MIN(CASE WHEN event_name = 'add_to_cart' THEN occurred_at END) AS t_cart,
    MIN(CASE WHEN event_name = 'purchase' THEN occurred_at END) AS t_buy
  FROM events GROUP BY user_id)
SELECT COUNT(t_view) AS step_1, COUNT(CASE WHEN t_cart > t_view THEN 1 END) AS step_2,
  COUNT(CASE WHEN t_buy > t_cart AND t_cart > t_view THEN 1 END) AS step_3 FROM steps

SELECT COUNT(*) AS viewed, COUNT(*) FILTER (WHERE bought) AS bought
FROM (SELECT user_id, bool_or(event_name = 'purchase') AS bought FROM events GROUP BY user_id HAVING bool_or(event_name = 'view')) u

WITH first_seen AS (SELECT user_id, date_trunc('month', MIN(occurred_at)) AS cohort FROM events GROUP BY user_id)
SELECT f.cohort, date_diff('month', f.cohort, date_trunc('month', e.occurred_at)) AS months_since, COUNT(DISTINCT e.user_id) AS users
FROM events e JOIN first_seen f ON f.user_id = e.user_id GROUP BY 1, 2 ORDER BY 1, 2

WITH cohort AS (SELECT user_id, date_trunc('week', signed_up_at) AS signup_week FROM users),
activity AS (SELECT DISTINCT user_id, date_trunc('week', occurred_at) AS active_week FROM events),
sizes AS (SELECT signup_week, COUNT(*) AS cohort_size FROM cohort GROUP BY 1),
retained AS (
  SELECT c.signup_week, date_diff('week', c.signup_week, a.active_week) AS week_number, COUNT(DISTINCT c.user_id) AS retained
  FROM cohort c JOIN activity a ON a.user_id = c.user_id GROUP BY 1, 2)
SELECT r.signup_week, r.week_number, r.retained, ROUND(100.0 * r.retained / s.cohort_size, 1) AS pct
FROM retained r JOIN sizes s USING (signup_week) ORDER BY 1, 2

SELECT u.country, COUNT(DISTINCT u.user_id) AS signups,
  COUNT(DISTINCT CASE WHEN e.occurred_at < u.signed_up_at + INTERVAL 7 DAY THEN u.user_id END) AS active_week_1
FROM users u LEFT JOIN events e ON e.user_id = u.user_id GROUP BY u.country

WITH ranked AS (SELECT user_id, event_name, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY occurred_at) AS rn FROM events)
SELECT event_name AS first_event, COUNT(*) AS users FROM ranked WHERE rn = 1 GROUP BY event_name

SELECT platform, COUNT(*) FROM (
  SELECT user_id, platform, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY occurred_at DESC) AS rn FROM events) t
WHERE rn = 1 GROUP BY platform

-- refused: The unit of privacy "user_id" is never released
SELECT platform, COUNT(*) AS users FROM events QUALIFY ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY occurred_at) = 1 GROUP BY platform

WITH gaps AS (
  SELECT user_id, date_diff('day', LAG(occurred_at) OVER (PARTITION BY user_id ORDER BY occurred_at), occurred_at) AS gap FROM events)
SELECT AVG(LEAST(gap, 365)) AS mean_gap FROM gaps WHERE gap IS NOT NULL

WITH s AS (
  SELECT user_id, occurred_at, CASE WHEN occurred_at - LAG(occurred_at) OVER (PARTITION BY user_id ORDER BY occurred_at) > INTERVAL '30 minutes' THEN 1 ELSE 0 END AS new_session FROM events)
SELECT occurred_at::date AS day, SUM(new_session) AS sessions FROM s GROUP BY 1 ORDER BY 1

WITH pairs AS (
  SELECT user_id, event_name, LEAD(event_name) OVER (PARTITION BY user_id ORDER BY occurred_at) AS next_event FROM events)
SELECT event_name, next_event, COUNT(*) AS n FROM pairs WHERE next_event IS NOT NULL GROUP BY 1, 2 ORDER BY n DESC

SELECT event_name, COUNT(*) AS n FROM (SELECT *, COUNT(*) OVER (PARTITION BY user_id) AS events_of_user FROM events) e
WHERE events_of_user >= 3 GROUP BY event_name

SELECT n_events, COUNT(*) AS users FROM (SELECT user_id, COUNT(*) AS n_events FROM events GROUP BY user_id) t GROUP BY n_events ORDER BY n_events

SELECT CASE WHEN n = 1 THEN '1' WHEN n BETWEEN 2 AND 5 THEN '2-5' ELSE '6+' END AS bucket, COUNT(*) AS users
FROM (SELECT user_id, COUNT(DISTINCT session_id) AS n FROM events GROUP BY user_id) s GROUP BY 1

SELECT AVG(sessions) FROM (SELECT user_id, COUNT(DISTINCT session_id) AS sessions FROM events GROUP BY 1) t

SELECT platform, percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_ms) AS p50, percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) AS p95
FROM events WHERE event_name = 'view' GROUP BY platform

SELECT split_part(app_version, '.', 1) AS major, COUNT(*) FROM events GROUP BY 1

SELECT regexp_extract(page, '^/([a-z]+)', 1) AS section, COUNT(*) AS views FROM events WHERE event_name = 'view' GROUP BY 1 ORDER BY 2 DESC LIMIT 20

SELECT json_extract_string(properties, '$.utm_source') AS source, COUNT(*) FROM events GROUP BY 1

SELECT properties->>'utm_source' AS source, COUNT(DISTINCT user_id) FROM events WHERE properties->>'utm_source' IS NOT NULL GROUP BY 1

SELECT country, plan, COUNT(*) AS users, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY country), 2) AS share FROM users GROUP BY country, plan

SELECT country, COUNT(*) FROM users WHERE NOT is_internal GROUP BY ROLLUP (country)

SELECT country, plan, GROUPING(country) AS g, COUNT(*) FROM users GROUP BY GROUPING SETS ((country), (plan), ())

SELECT COALESCE(country, 'all') AS country, CASE WHEN GROUPING(plan) = 1 THEN 'total' ELSE plan END AS plan, COUNT(*) FROM users GROUP BY CUBE (country, plan)

SELECT date_trunc('month', started_on) AS month, SUM(mrr) AS new_mrr FROM subscriptions GROUP BY 1 ORDER BY 1

SELECT SUM(mrr) FILTER (WHERE ended_on IS NULL) AS active_mrr, COUNT(*) FILTER (WHERE ended_on IS NOT NULL) AS churned FROM subscriptions

-- refused: A float cannot be a group
SELECT s.plan, p.list_price, COUNT(*) FROM subscriptions s JOIN plans p ON p.plan = s.plan GROUP BY s.plan, p.list_price

WITH months AS (SELECT unnest(generate_series(DATE '2022-01-01', DATE '2022-12-01', INTERVAL 1 MONTH)) AS m)
SELECT m, COUNT(s.user_id) AS active FROM months LEFT JOIN subscriptions s ON s.started_on <= m AND (s.ended_on IS NULL OR s.ended_on > m) GROUP BY m ORDER BY m

SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM events e WHERE e.user_id = u.user_id AND e.event_name = 'purchase')

SELECT COUNT(*) FROM users WHERE user_id NOT IN (SELECT user_id FROM events WHERE event_name = 'purchase')

SELECT plan, COUNT(*) AS users, SUM(spent) AS revenue, SUM(spent) / COUNT(*) AS arpu FROM (
  SELECT u.user_id, u.plan, COALESCE(SUM(e.revenue), 0) AS spent FROM users u LEFT JOIN events e ON u.user_id = e.user_id GROUP BY u.user_id, u.plan) t GROUP BY plan

SELECT strftime(occurred_at, '%Y-%m') AS month, SUM(revenue) AS revenue, SUM(SUM(revenue)) OVER (ORDER BY strftime(occurred_at, '%Y-%m')) AS running
FROM events WHERE event_name = 'purchase' GROUP BY 1

SELECT a.event_name, COUNT(DISTINCT a.user_id) FROM events a JOIN events b ON a.user_id = b.user_id AND b.occurred_at > a.occurred_at AND b.event_name = 'purchase' GROUP BY 1

SELECT date_trunc('month', signed_up_at) AS m, country, COUNT(*) AS n, LAG(COUNT(*)) OVER (PARTITION BY country ORDER BY date_trunc('month', signed_up_at)) AS prev FROM users GROUP BY 1, 2

WITH m AS (SELECT date_trunc('month', occurred_at) AS month, SUM(revenue) AS rev FROM events GROUP BY 1)
SELECT month, rev, rev / LAG(rev) OVER (ORDER BY month) - 1 AS growth FROM m

SELECT COUNT(DISTINCT user_id) FROM events WHERE occurred_at >= TIMESTAMP '2022-06-01' - INTERVAL '28 days' AND occurred_at < TIMESTAMP '2022-06-01'

-- refused: The unit of privacy "user_id" cannot be a group: an answer would be about one person
SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id ORDER BY n DESC LIMIT 10

-- refused: SELECT * is not answered
SELECT * FROM events LIMIT 100

SELECT event_name, approx_count_distinct(user_id) FROM events GROUP BY event_name

SELECT dayname(occurred_at) AS weekday, hour(occurred_at) AS h, COUNT(*) AS n FROM events GROUP BY ALL

WITH per_user AS (SELECT user_id, COUNT(*) FILTER (WHERE event_name = 'purchase') AS purchases FROM events GROUP BY user_id)
SELECT purchases >= 1 AS buyer, COUNT(*) FROM per_user GROUP BY 1

SELECT u.plan, AVG(d.active_days) FROM users u JOIN (SELECT user_id, COUNT(DISTINCT occurred_at::date) AS active_days FROM events GROUP BY user_id) d ON d.user_id = u.user_id GROUP BY u.plan

SELECT country, AVG(age), STDDEV(age), MIN(age), MAX(age), MEDIAN(age) FROM users GROUP BY country

SELECT first_value, COUNT(*) FROM (SELECT DISTINCT user_id, FIRST_VALUE(platform) OVER (PARTITION BY user_id ORDER BY occurred_at) AS first_value FROM events) x GROUP BY 1

SELECT DENSE_RANK() OVER (ORDER BY COUNT(*) DESC) AS r, event_name, COUNT(*) FROM events GROUP BY event_name

WITH o AS (SELECT user_id, revenue, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY occurred_at, event_id) AS nth FROM events WHERE event_name = 'purchase')
SELECT CASE nth WHEN 1 THEN 'first' WHEN 2 THEN 'second' ELSE 'later' END AS which, COUNT(*) AS orders, AVG(revenue) AS value FROM o GROUP BY 1

WITH t AS (SELECT user_id, revenue, SUM(revenue) OVER (PARTITION BY user_id ORDER BY occurred_at) AS cumulative FROM events)
SELECT COUNT(DISTINCT user_id) FROM t WHERE cumulative >= 100

SELECT event_name, COUNT(DISTINCT user_id) AS users FROM events WHERE occurred_at >= CURRENT_DATE - INTERVAL '30 days' GROUP BY event_name

SELECT COUNT(DISTINCT user_id) FILTER (WHERE event_name = 'view') AS s1, COUNT(DISTINCT user_id) FILTER (WHERE event_name = 'add_to_cart') AS s2, COUNT(DISTINCT user_id) FILTER (WHERE event_name = 'purchase') AS s3 FROM events

WITH first_seen AS (SELECT user_id, MIN(date_trunc('month', occurred_at)) AS cohort FROM events GROUP BY user_id) SELECT f.cohort, date_diff('month', f.cohort, e.occurred_at) AS age, COUNT(DISTINCT e.user_id) AS users FROM events e JOIN first_seen f USING (user_id) GROUP BY 1, 2 ORDER BY 1, 2

SELECT platform, AVG(n) AS events_per_user FROM (SELECT user_id, platform, COUNT(*) AS n FROM events GROUP BY user_id, platform) t GROUP BY platform

SELECT u.plan, SUM(e.revenue) / COUNT(DISTINCT u.user_id) AS arpu FROM users u JOIN events e ON e.user_id = u.user_id GROUP BY u.plan

SELECT plan, COUNT(*) AS churned FROM subscriptions WHERE ended_on IS NOT NULL AND ended_on - started_on < 90 GROUP BY plan

-- missing: is not inside an aggregate
SELECT COUNT(*) FROM users u WHERE u.signed_up_at::date NOT IN (SELECT started_on FROM subscriptions s WHERE s.user_id = u.user_id)

SELECT country, COUNT(*) AS signups, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 2) AS share FROM users WHERE NOT is_internal GROUP BY country ORDER BY signups DESC

SELECT json_extract_string(properties, '$.button') AS button, COUNT(*) FROM events WHERE event_name = 'view' GROUP BY 1

SELECT date_trunc('day', occurred_at) AS d, COUNT(DISTINCT user_id) AS dau, COUNT(DISTINCT session_id) AS sessions FROM events WHERE occurred_at >= '2022-05-01' AND occurred_at < '2022-06-01' GROUP BY d

SELECT SUM(mrr) AS mrr FROM subscriptions WHERE started_on <= DATE '2022-06-30' AND (ended_on IS NULL OR ended_on > DATE '2022-06-30')

SELECT s.d, COUNT(*) FROM subscriptions JOIN (SELECT unnest(generate_series(DATE '2022-01-01', DATE '2022-06-01', INTERVAL 1 MONTH)) AS d) s ON started_on <= s.d AND COALESCE(ended_on, DATE '9999-12-31') > s.d GROUP BY s.d

SELECT approx_quantile(duration_ms, 0.95) AS p95 FROM events WHERE platform = 'web'

SELECT COUNT(*) FROM (SELECT user_id FROM events WHERE event_name = 'view' INTERSECT SELECT user_id FROM events WHERE event_name = 'purchase')

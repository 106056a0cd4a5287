-- Taxi rides: the rider is protected, zones and vendors are public.

SELECT COUNT(*) FROM trips

SELECT passenger_count, AVG(total_amount) FROM trips GROUP BY passenger_count

SELECT passenger_count, extract(year FROM pickup_at) AS year, COUNT(*) FROM trips GROUP BY passenger_count, year

SELECT passenger_count, extract(year FROM pickup_at) AS year, round(trip_distance) AS distance, COUNT(*) AS n
FROM trips GROUP BY passenger_count, year, distance ORDER BY year, n DESC

SELECT cab_type, COUNT(*) FROM trips GROUP BY cab_type

SELECT date_trunc('hour', pickup_at) AS hour, COUNT(*) AS rides FROM trips
WHERE pickup_at >= TIMESTAMP '2015-01-01 00:00:00' AND pickup_at < TIMESTAMP '2015-01-08 00:00:00' GROUP BY 1 ORDER BY 1

-- refused: has no bounds
SELECT date_part('hour', pickup_at) AS h, AVG(tip_amount / NULLIF(fare_amount, 0)) AS tip_share FROM trips
WHERE fare_amount > 2.5 GROUP BY 1

SELECT hour(pickup_at) AS h, AVG(LEAST(GREATEST(tip_amount / NULLIF(fare_amount, 0), 0), 1)) AS tip_share FROM trips GROUP BY h ORDER BY h

SELECT z.borough, COUNT(*) AS rides FROM trips t JOIN zones z ON t.pickup_zone = z.zone_id GROUP BY z.borough ORDER BY rides DESC

SELECT pz.borough AS from_borough, dz.borough AS to_borough, COUNT(*) AS n, AVG(t.fare_amount) AS fare
FROM trips t, zones pz, zones dz WHERE t.pickup_zone = pz.zone_id AND t.dropoff_zone = dz.zone_id GROUP BY 1, 2

SELECT AVG(date_diff('minute', pickup_at, dropoff_at)) AS minutes FROM trips

SELECT AVG(EXTRACT(EPOCH FROM (dropoff_at - pickup_at)) / 60) AS minutes FROM trips

SELECT AVG(date_diff('second', pickup_at, dropoff_at) / 60.0) FROM trips WHERE dropoff_at > pickup_at

-- refused: has no bounds
SELECT AVG(trip_distance / (date_diff('second', pickup_at, dropoff_at) / 3600.0)) AS mph FROM trips
WHERE date_diff('second', pickup_at, dropoff_at) BETWEEN 60 AND 7200

SELECT AVG(CLAMP(trip_distance / NULLIF(date_diff('second', pickup_at, dropoff_at) / 3600.0, 0), 0, 100)) AS mph FROM trips

SELECT CASE WHEN extract(dow FROM pickup_at) IN (0, 6) THEN 'weekend' ELSE 'weekday' END AS part, COUNT(*), AVG(fare_amount)
FROM trips GROUP BY 1

SELECT monthname(pickup_at) AS month, SUM(total_amount) FROM trips GROUP BY 1

SELECT dayname(pickup_at) AS d, hour(pickup_at) AS h, COUNT(*) AS n FROM trips GROUP BY d, h

SELECT to_char(pickup_at, 'YYYY-MM') AS month, SUM(fare_amount) AS fares, SUM(tip_amount) AS tips FROM trips GROUP BY 1 ORDER BY 1

SELECT payment_type, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM trips) AS share FROM trips GROUP BY payment_type

SELECT payment_type, COUNT(*) AS n, 100 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM trips GROUP BY payment_type

SELECT CAST(pickup_at AS DATE) AS day, SUM(total_amount) AS revenue FROM trips GROUP BY CAST(pickup_at AS DATE) ORDER BY day

SELECT pickup_at::date AS day, COUNT(*) FROM trips WHERE pickup_at >= '2015-01-01' AND pickup_at < '2015-02-01' GROUP BY 1

SELECT DATE(pickup_at) AS day, COUNT(*) FROM trips GROUP BY DATE(pickup_at)

SELECT floor(trip_distance) AS miles, COUNT(*) FROM trips WHERE trip_distance < 30 GROUP BY 1 ORDER BY 1

SELECT CAST(floor(fare_amount / 5) * 5 AS INTEGER) AS fare_from, COUNT(*) AS n FROM trips WHERE fare_amount BETWEEN 0 AND 100 GROUP BY 1 ORDER BY 1

SELECT ROUND(trip_distance, 1) AS d, COUNT(*) FROM trips GROUP BY 1 ORDER BY 1 LIMIT 50

SELECT vendor, AVG(tip_amount) FILTER (WHERE payment_type = 'card') AS card_tip, AVG(tip_amount) FILTER (WHERE payment_type = 'cash') AS cash_tip
FROM trips GROUP BY vendor

SELECT v.name, COUNT(*) FROM trips JOIN vendors v USING (vendor) GROUP BY v.name

SELECT STDDEV(fare_amount), VARIANCE(fare_amount), MIN(fare_amount), MAX(fare_amount) FROM trips

SELECT AVG(n) AS rides_per_rider FROM (SELECT rider_id, COUNT(*) AS n FROM trips GROUP BY rider_id) t

SELECT n, COUNT(*) AS riders FROM (SELECT rider_id, COUNT(DISTINCT pickup_zone) AS n FROM trips GROUP BY rider_id) t GROUP BY n ORDER BY n

SELECT SUM(spent) FROM (SELECT rider_id, SUM(total_amount) AS spent FROM trips GROUP BY rider_id HAVING COUNT(*) >= 5) t

SELECT AVG(LEAST(spent, 500)) FROM (SELECT rider_id, SUM(total_amount) AS spent FROM trips GROUP BY rider_id) t

SELECT SQRT(AVG(POWER(trip_distance - 3, 2))) FROM trips

SELECT AVG(LN(trip_distance + 1)) FROM trips

SELECT AVG(ABS(fare_amount - 10)) FROM trips

SELECT AVG(CASE WHEN trip_distance > 0 THEN fare_amount ELSE 0 END) FROM trips

SELECT COUNT(*) FROM trips WHERE pickup_at >= TIMESTAMP '2015-06-01' - INTERVAL '7 days' AND pickup_at < TIMESTAMP '2015-06-01'

SELECT COUNT(*) FROM trips WHERE dropoff_at - pickup_at > INTERVAL '1 hour'

SELECT COUNT(*) FROM trips WHERE dropoff_at < pickup_at + INTERVAL 10 MINUTE

SELECT COUNT(*) FROM trips WHERE EXTRACT(HOUR FROM pickup_at) NOT BETWEEN 6 AND 22

SELECT time_bucket(INTERVAL '15 minutes', pickup_at) AS t, COUNT(*) FROM trips GROUP BY t ORDER BY t

SELECT g.h, COUNT(t.vendor) AS n FROM generate_series(0, 23) AS g(h) LEFT JOIN trips t ON hour(t.pickup_at) = g.h GROUP BY g.h ORDER BY g.h

SELECT d.day, COUNT(t.rider_id) FROM generate_series(DATE '2015-01-01', DATE '2015-01-31', INTERVAL 1 DAY) AS d(day)
LEFT JOIN trips t ON CAST(t.pickup_at AS DATE) = d.day GROUP BY d.day ORDER BY d.day

SELECT z.zone, COUNT(*) AS n FROM trips t LEFT JOIN zones z ON z.zone_id = t.pickup_zone WHERE z.zone IS NOT NULL GROUP BY z.zone ORDER BY n DESC LIMIT 3

SELECT z.zone, COUNT(t.fare_amount) AS n FROM zones z LEFT JOIN trips t ON z.zone_id = t.pickup_zone GROUP BY z.zone

SELECT COUNT(*) FROM trips t RIGHT JOIN zones z ON z.zone_id = t.pickup_zone WHERE z.borough = 'Queens'

SELECT COUNT(*) FROM trips WHERE pickup_zone IN (SELECT zone_id FROM zones WHERE borough = 'Manhattan')

SELECT COUNT(*) FROM trips t WHERE EXISTS (SELECT 1 FROM zones z WHERE z.zone_id = t.pickup_zone AND z.borough = 'Bronx')

-- refused: A subquery in an expression
SELECT COUNT(*) FROM trips WHERE fare_amount > (SELECT AVG(fare_amount) FROM trips)

-- refused: would look at other people's. Within the rows of one it is answered
SELECT AVG(gap) FROM (SELECT date_diff('minute', LAG(dropoff_at) OVER (PARTITION BY vendor ORDER BY pickup_at), pickup_at) AS gap FROM trips) t

SELECT COUNT(*) FROM trips t WHERE t.dropoff_zone IN (SELECT o.pickup_zone FROM trips o WHERE o.rider_id = t.rider_id)

-- refused: A subquery in an expression
SELECT COUNT(*) FROM trips WHERE pickup_zone IN (SELECT dropoff_zone FROM trips)

SELECT YEAR(pickup_at) * 100 + MONTH(pickup_at) AS ym, COUNT(*) FROM trips GROUP BY ym ORDER BY ym

SELECT COUNT(*) FROM trips WHERE pickup_at > CURRENT_DATE - INTERVAL '30 days'

SELECT COUNT(*) FROM trips WHERE MONTH(pickup_at) = 1 AND YEAR(pickup_at) = 2015

SELECT last_day(pickup_at) AS month_end, COUNT(*) FROM trips GROUP BY 1

SELECT CONCAT(pz.borough, ' -> ', dz.borough) AS route, COUNT(*) AS n FROM trips t
JOIN zones pz ON pz.zone_id = t.pickup_zone JOIN zones dz ON dz.zone_id = t.dropoff_zone GROUP BY 1 ORDER BY n DESC LIMIT 5

SELECT corr(trip_distance, fare_amount) FROM trips

-- refused: The unit of privacy
SELECT rider_id, SUM(total_amount) FROM trips GROUP BY rider_id

-- refused: MODE is not answered
SELECT MODE(payment_type) FROM trips

SELECT payment_type FROM trips GROUP BY payment_type ORDER BY COUNT(*) DESC LIMIT 1

SELECT EXTRACT(hour FROM pickup_at) AS hr, COUNT(*) AS trips, SUM(tip_amount) / SUM(fare_amount) AS tip_rate FROM trips WHERE payment_type = 'card' AND fare_amount > 0 GROUP BY hr ORDER BY hr

SELECT z1.borough AS origin, z2.borough AS destination, COUNT(*) AS n, ROUND(AVG(trip_distance), 2) AS miles FROM trips LEFT JOIN zones z1 ON pickup_zone = z1.zone_id LEFT JOIN zones z2 ON dropoff_zone = z2.zone_id GROUP BY 1, 2

SELECT vendor, date_trunc('week', pickup_at) AS wk, SUM(total_amount) AS revenue FROM trips GROUP BY ALL

SELECT CASE WHEN trip_distance <= 1 THEN '0-1' WHEN trip_distance <= 3 THEN '1-3' WHEN trip_distance <= 10 THEN '3-10' ELSE '10+' END AS dist, AVG(total_amount) AS avg_total, COUNT(*) AS n FROM trips GROUP BY 1

SELECT strftime(pickup_at, '%a') AS dow, COUNT(*) FROM trips GROUP BY 1

SELECT date_trunc('day', pickup_at) AS d, COUNT(*) AS n, AVG(COUNT(*)) OVER (ORDER BY date_trunc('day', pickup_at) ROWS 6 PRECEDING) AS ma7 FROM trips GROUP BY 1

SELECT zone, n FROM (SELECT z.zone, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS rn FROM trips t JOIN zones z ON z.zone_id = t.pickup_zone GROUP BY z.zone) WHERE rn <= 10

SELECT APPROX_QUANTILE(fare_amount, 0.5) AS p50 FROM trips

SELECT v.name, COUNT(*) FROM trips t JOIN vendors v ON v.vendor = t.vendor WHERE pickup_at::date = '2022-05-01' GROUP BY v.name

SELECT COUNT(*) FROM trips WHERE pickup_at::time BETWEEN '07:00:00' AND '09:30:00'

SELECT AVG(EPOCH(dropoff_at) - EPOCH(pickup_at)) / 60 AS minutes FROM trips

SELECT AVG(date_diff('minute', pickup_at, dropoff_at)) FROM trips WHERE date_diff('minute', pickup_at, dropoff_at) BETWEEN 1 AND 180

SELECT passenger_count, MEDIAN(tip_amount) FROM trips GROUP BY passenger_count

SELECT COUNT(*) FILTER (WHERE passenger_count = 1) * 100.0 / COUNT(*) AS solo_pct FROM trips

SELECT rides, COUNT(*) AS riders FROM (SELECT rider_id, COUNT(*) AS rides FROM trips GROUP BY rider_id) t GROUP BY rides

SELECT AVG(wait) FROM (SELECT date_diff('minute', LAG(dropoff_at) OVER w, pickup_at) AS wait FROM trips WINDOW w AS (PARTITION BY rider_id ORDER BY pickup_at)) t WHERE wait BETWEEN 0 AND 1440

-- missing: ORDER BY in a subquery in an expression is not answered
SELECT COUNT(*) FROM trips a WHERE dropoff_zone = (SELECT b.pickup_zone FROM trips b WHERE b.rider_id = a.rider_id ORDER BY b.pickup_at LIMIT 1)

SELECT payment_type, COUNT(*) FROM trips WHERE pickup_zone IN (SELECT zone_id FROM zones WHERE borough = 'Queens') GROUP BY payment_type

SELECT vendor, SUM(fare_amount) AS fares, SUM(fare_amount) > 1000 AS big FROM trips GROUP BY vendor

SELECT month(pickup_at) AS m, cab_type, COUNT(*) AS n FROM trips WHERE year(pickup_at) = 2022 GROUP BY m, cab_type ORDER BY m, cab_type

SELECT COALESCE(cab_type, 'total') AS cab, COUNT(*) AS n, SUM(total_amount) AS s FROM trips GROUP BY ROLLUP (cab_type) ORDER BY GROUPING(cab_type), cab

-- refused: TOSTARTOFHOUR is not answered
SELECT toStartOfHour(pickup_at) AS h, count() AS c FROM trips GROUP BY h ORDER BY h

SELECT round(trip_distance) AS miles, avg(fare_amount), stddev_pop(fare_amount) FROM trips WHERE trip_distance < 20 GROUP BY miles

SELECT pickup_zone, COUNT(*) c FROM trips GROUP BY pickup_zone ORDER BY c DESC LIMIT 3

SELECT DATE(pickup_at) AS d, payment_type, SUM(total_amount) AS s, SUM(SUM(total_amount)) OVER (PARTITION BY payment_type ORDER BY DATE(pickup_at)) AS cum FROM trips GROUP BY 1, 2

SELECT date_part('hour', pickup_at) AS hr, AVG(fare_amount) AS fare, MEDIAN(trip_distance) AS dist FROM trips GROUP BY hr ORDER BY hr

SELECT CASE dayofweek(pickup_at) WHEN 0 THEN 'Sun' WHEN 6 THEN 'Sat' ELSE 'Week' END AS d, COUNT(*) FROM trips GROUP BY 1

SELECT payment_type, SUM(tip_amount) / SUM(fare_amount) AS tip_pct FROM trips GROUP BY payment_type

SELECT z.borough, date_trunc('day', t.pickup_at)::DATE AS day, COUNT(*) AS trips FROM trips AS t LEFT JOIN zones AS z ON z.zone_id = t.pickup_zone WHERE t.pickup_at >= '2015-01-01' AND t.pickup_at < '2015-02-01' GROUP BY z.borough, day ORDER BY day

SELECT COUNT(*) FROM trips WHERE pickup_zone = dropoff_zone

SELECT width_bucket(trip_distance, 0, 20, 10) AS b, COUNT(*), MIN(trip_distance), MAX(trip_distance) FROM trips GROUP BY b ORDER BY b

SELECT ROUND(fare_amount / 5) * 5 AS fare_bin, COUNT(*) AS count FROM trips WHERE fare_amount > 0 GROUP BY fare_bin ORDER BY fare_bin ASC

SELECT vendor, COUNT(*) AS trips, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct FROM trips GROUP BY vendor

WITH daily AS (SELECT CAST(pickup_at AS DATE) AS d, SUM(total_amount) AS revenue FROM trips WHERE pickup_at BETWEEN TIMESTAMP '2015-03-01' AND TIMESTAMP '2015-03-31' GROUP BY 1) SELECT d, revenue, AVG(revenue) OVER (ORDER BY d ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS ma7 FROM daily ORDER BY d

SELECT CORR(trip_distance, fare_amount) AS r, REGR_SLOPE(fare_amount, trip_distance) AS slope FROM trips WHERE trip_distance > 0

SELECT riders, COUNT(*) FROM (SELECT rider_id, COUNT(*) AS riders FROM trips WHERE cab_type = 'green' GROUP BY rider_id HAVING COUNT(*) >= 2) x GROUP BY riders

SELECT v.name, AVG(t.passenger_count) FROM trips t JOIN vendors v ON v.vendor = t.vendor WHERE t.passenger_count BETWEEN 1 AND 6 GROUP BY v.name

SELECT COUNT(*) FROM trips WHERE extract(hour FROM pickup_at) >= 22 OR extract(hour FROM pickup_at) < 5

SELECT to_char(pickup_at, 'Day') AS weekday, AVG(total_amount) AS avg_total FROM trips GROUP BY 1

SELECT quantile_cont(fare_amount, 0.25) AS q1, quantile_cont(fare_amount, 0.75) AS q3, quantile_cont(fare_amount, 0.75) - quantile_cont(fare_amount, 0.25) AS iqr FROM trips

SELECT COUNT(*) FROM trips WHERE pickup_at::time >= '22:00'

SELECT AVG(gap) FROM (SELECT date_diff('hour', LAG(pickup_at) OVER (PARTITION BY rider_id ORDER BY pickup_at), pickup_at) AS gap FROM trips) g WHERE gap BETWEEN 0 AND 720

SELECT borough, payment_type, COUNT(*) AS n FROM trips JOIN zones ON pickup_zone = zone_id WHERE borough <> 'Queens' GROUP BY ROLLUP (borough, payment_type)

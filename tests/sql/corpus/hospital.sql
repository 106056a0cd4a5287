-- A hospital: patients are protected, their stays and prescriptions lie behind them, wards and codes are public.

SELECT ward, COUNT(*) AS stays, COUNT(DISTINCT patient_id) AS patients FROM stays GROUP BY ward

SELECT diagnosis, AVG(days) AS mean_stay, STDDEV(days) AS sd FROM stays GROUP BY diagnosis ORDER BY mean_stay DESC

SELECT AVG(discharged - admitted) FROM stays

SELECT AVG(date_diff('day', admitted, discharged)) AS los FROM stays WHERE discharged IS NOT NULL

SELECT AVG(DATEDIFF('day', admitted, discharged)) FROM stays

SELECT AVG(julian(discharged) - julian(admitted)) FROM stays

SELECT COUNT(*) FROM stays WHERE admitted BETWEEN DATE '2023-01-01' AND DATE '2023-12-31' AND diagnosis IN ('flu', 'asthma')

SELECT date_trunc('month', admitted) AS month, COUNT(*) FROM stays WHERE admitted >= DATE '2023-01-01' GROUP BY month ORDER BY month

SELECT p.sex, AVG(s.days) FROM patients p JOIN stays s ON s.patient_id = p.id GROUP BY p.sex

SELECT p.sex, COUNT(*) FROM patients p, stays s WHERE p.id = s.patient_id AND s.diagnosis = 'flu' GROUP BY p.sex

SELECT date_part('year', age(DATE '2024-01-01', birth_date)) AS years, COUNT(*) FROM patients GROUP BY 1 ORDER BY 1

SELECT AVG(date_diff('year', birth_date, DATE '2024-01-01')) FROM patients

SELECT AVG(2024 - EXTRACT(year FROM birth_date)) AS age FROM patients

SELECT (2024 - year(birth_date)) // 10 * 10 AS decade, COUNT(*) FROM patients GROUP BY 1 ORDER BY 1

SELECT floor(date_diff('day', birth_date, DATE '2024-01-01') / 365.25) AS age, COUNT(*) FROM patients GROUP BY 1

SELECT CASE WHEN age < 18 THEN '0-17' WHEN age BETWEEN 18 AND 64 THEN '18-64' ELSE '65+' END AS band, COUNT(*) AS n
FROM (SELECT id, date_diff('year', birth_date, DATE '2024-01-01') AS age FROM patients) AS a GROUP BY band

SELECT COUNT(*) FROM (SELECT patient_id FROM stays GROUP BY patient_id HAVING COUNT(*) > 1) AS readmitted

SELECT SUM(CASE WHEN n > 1 THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS readmission_rate FROM (SELECT patient_id, COUNT(*) AS n FROM stays GROUP BY patient_id) t

SELECT COUNT(DISTINCT a.patient_id) FROM stays a JOIN stays b ON a.patient_id = b.patient_id
WHERE b.admitted > a.discharged AND b.admitted <= a.discharged + INTERVAL 30 DAY

SELECT COUNT(*) FROM stays a WHERE EXISTS (SELECT 1 FROM stays b WHERE b.patient_id = a.patient_id AND b.admitted > a.discharged
  AND b.admitted <= a.discharged + 30)

SELECT ward, COUNT(*) FROM stays WHERE patient_id IN (SELECT id FROM patients WHERE sex = 'F') GROUP BY ward

SELECT drug, COUNT(*) AS n, AVG(dose) FROM prescriptions GROUP BY drug ORDER BY n DESC

SELECT s.ward, pr.drug, COUNT(*) FROM stays s JOIN prescriptions pr ON pr.stay_id = s.stay_id GROUP BY s.ward, pr.drug

SELECT d.class, SUM(pr.dose) FROM prescriptions pr JOIN drugs d ON d.drug = pr.drug GROUP BY d.class

SELECT d.class, COUNT(DISTINCT s.patient_id) FROM prescriptions pr JOIN stays s ON pr.stay_id = s.stay_id
JOIN drugs d USING (drug) JOIN patients p ON p.id = s.patient_id WHERE p.sex = 'M' GROUP BY d.class

SELECT COUNT(*) FROM stays s WHERE NOT EXISTS (SELECT 1 FROM prescriptions pr WHERE pr.stay_id = s.stay_id)

SELECT COUNT(*) FROM patients p LEFT JOIN stays s ON s.patient_id = p.id WHERE s.patient_id IS NULL

SELECT COUNT(*) FROM patients WHERE id NOT IN (SELECT patient_id FROM stays)

SELECT w.building, SUM(s.days) AS bed_days FROM stays s JOIN wards w ON s.ward = w.ward GROUP BY w.building

SELECT w.ward, COUNT(s.stay_id) AS stays FROM wards w LEFT JOIN stays s ON s.ward = w.ward GROUP BY w.ward ORDER BY w.ward

SELECT icd.chapter, COUNT(*) FROM stays JOIN icd ON stays.code = icd.code GROUP BY icd.chapter

SELECT LEFT(code, 3) AS icd3, COUNT(*) AS n FROM stays GROUP BY 1 ORDER BY n DESC LIMIT 15

SELECT COUNT(*) FROM stays WHERE code LIKE 'J45%'

SELECT COUNT(*) FROM stays WHERE code SIMILAR TO 'J4[0-9].*'

SELECT COUNT(*) FROM stays WHERE regexp_matches(code, '^(E1[0-4]|I2[0-5])')

SELECT COUNT(*) FROM stays WHERE code ~ '^C[0-9][0-9]'

-- refused: Of all people it would turn on one
SELECT BOOL_OR(urgent) FROM stays

SELECT AVG(CAST(urgent AS INTEGER)) AS urgent_share, AVG(urgent::int) FROM stays

SELECT COUNT_IF(urgent) AS urgent, COUNT(*) AS total, COUNT_IF(urgent) / COUNT(*) AS share FROM stays

SELECT SUM(urgent::INT) FROM stays

SELECT ward, MEDIAN(days), QUANTILE_CONT(days, 0.9), MAX(days) FROM stays GROUP BY ward

SELECT ward, COUNT(*) FILTER (WHERE days > 7) AS long, COUNT(*) FILTER (WHERE days <= 7) AS short FROM stays GROUP BY ward

SELECT year(first_stay) AS y, month(first_stay) AS m, COUNT(*) AS new_patients
FROM (SELECT patient_id, MIN(admitted) AS first_stay FROM stays GROUP BY patient_id) f GROUP BY y, m ORDER BY y, m

SELECT AVG(date_diff('day', first_stay, last_stay)) FROM (SELECT patient_id, MIN(admitted) AS first_stay, MAX(admitted) AS last_stay FROM stays GROUP BY 1) f

SELECT COUNT(*) FROM stays s JOIN (SELECT patient_id, MIN(admitted) AS first_day FROM stays GROUP BY patient_id) f
ON s.patient_id = f.patient_id AND s.admitted = f.first_day

SELECT to_char(admitted, 'Mon YYYY') AS month, COUNT(*) FROM stays GROUP BY 1

SELECT strftime(admitted, '%Y-W%V') AS week, COUNT(*) FROM stays GROUP BY 1 ORDER BY 1

SELECT dayofweek(admitted), COUNT(*) FROM stays GROUP BY 1

SELECT AVG(cost) AS mean_cost, SUM(cost) AS total FROM stays WHERE cost > 0

-- refused: has no bounds
SELECT ward, AVG(cost / NULLIF(days, 0)) FROM stays GROUP BY ward

SELECT ward, SUM(cost) / SUM(days) AS cost_per_day FROM stays GROUP BY ward

SELECT diagnosis, ward, COUNT(*) FROM stays GROUP BY CUBE (diagnosis, ward)

SELECT diagnosis, COUNT(*) FROM stays GROUP BY GROUPING SETS ((diagnosis), ())

SELECT COALESCE(diagnosis, 'unknown') AS d, COUNT(*) FROM stays GROUP BY 1

SELECT IFNULL(ward, 'none') AS w, COUNT(*) FROM stays GROUP BY w

SELECT upper(trim(ward)) AS w, COUNT(*) FROM stays GROUP BY 1

SELECT COUNT(*) FROM stays WHERE notes->>'$.smoker' = 'true'

SELECT json_extract_string(notes, '$.triage') AS triage, COUNT(*) FROM stays GROUP BY 1

SELECT AVG(CLAMP(CAST(json_extract(notes, '$.bmi') AS DOUBLE), 10, 60)) FROM stays

SELECT AVG(total) FROM (SELECT patient_id, SUM(weight) AS total FROM stays GROUP BY patient_id) w WHERE total BETWEEN 0 AND 1000

SELECT COUNT(*) FROM patients FULL OUTER JOIN stays ON patients.id = stays.patient_id

SELECT COUNT(*) FROM stays NATURAL JOIN wards

-- refused: A subquery in an expression
SELECT COUNT(*) FROM patients WHERE ward IN (SELECT ward FROM stays)

-- refused: joined on the unit of privacy
SELECT COUNT(*) FROM stays a JOIN stays b ON a.ward = b.ward AND a.admitted = b.admitted

-- refused: The unit of privacy
SELECT patient_id, days FROM stays ORDER BY days DESC LIMIT 5

-- refused: neither grouped nor inside an aggregate
SELECT name, ward FROM patients

-- refused: The unit of privacy
SELECT DISTINCT patient_id FROM stays WHERE diagnosis = 'hiv'

-- refused: ARG_MAX is not answered
SELECT ward, ARG_MAX(diagnosis, cost) FROM stays GROUP BY ward

-- refused: FIRST is not answered
SELECT ward, FIRST(diagnosis) FROM stays GROUP BY ward

-- refused: ARRAY_AGG is not answered
SELECT ward, ARRAY_AGG(diagnosis) FROM stays GROUP BY ward

-- refused: RANDOM is not answered
SELECT AVG(days) FROM stays WHERE random() < 0.1

-- refused: There is no column
SELECT AVG(lenght_of_stay) FROM stays

WITH s AS (SELECT patient_id, admitted, diagnosis FROM stays WHERE diagnosis = 'asthma'), f AS (SELECT patient_id, MIN(admitted) AS d FROM s GROUP BY patient_id)
SELECT date_trunc('year', d) AS cohort, COUNT(*) FROM f GROUP BY 1 ORDER BY 1

SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) <= 3

SELECT ward, AVG(days) AS a FROM stays GROUP BY ward UNION ALL SELECT 'all', AVG(days) FROM stays

SELECT 'f' AS sex, COUNT(*) FROM patients WHERE sex = 'F' UNION ALL SELECT 'm', COUNT(*) FROM patients WHERE sex = 'M'

SELECT ward, COUNT(*) AS admissions, COUNT(DISTINCT patient_id) AS patients, ROUND(AVG(days), 1) AS mean_stay FROM stays WHERE admitted BETWEEN '1995-01-01' AND '1995-12-31' GROUP BY ward ORDER BY ward

WITH s AS (SELECT patient_id, admitted, LAG(discharged) OVER (PARTITION BY patient_id ORDER BY admitted) AS previous FROM stays)
SELECT COUNT(*) FILTER (WHERE admitted - previous <= 30) AS readmitted, COUNT(*) AS stays FROM s

SELECT ward, AVG(CASE WHEN next_admitted <= discharged + INTERVAL 30 DAY THEN 1.0 ELSE 0 END) AS readmission_rate
FROM (SELECT ward, discharged, LEAD(admitted) OVER (PARTITION BY patient_id ORDER BY admitted, stay_id) AS next_admitted FROM stays) t GROUP BY ward

SELECT COUNT(DISTINCT a.patient_id) FROM stays a JOIN stays b ON a.patient_id = b.patient_id AND a.stay_id <> b.stay_id AND b.admitted BETWEEN a.discharged AND a.discharged + INTERVAL 30 DAY

SELECT diagnosis, SUM(CASE WHEN urgent THEN 1 ELSE 0 END)::float / COUNT(*) AS urgent_share FROM stays GROUP BY diagnosis

SELECT CASE WHEN date_diff('year', p.birth_date, s.admitted) < 18 THEN 'child' WHEN date_diff('year', p.birth_date, s.admitted) < 65 THEN 'adult' ELSE 'senior' END AS age_group, s.diagnosis, COUNT(*) AS n
FROM stays s INNER JOIN patients p ON s.patient_id = p.id GROUP BY 1, 2 ORDER BY 1, 2

SELECT p.sex, AVG(s.cost) AS mean_cost, COUNT(DISTINCT p.id) AS patients FROM patients p JOIN stays s ON p.id = s.patient_id WHERE s.diagnosis = 'heart' GROUP BY p.sex

SELECT d.class, COUNT(*) AS prescriptions, AVG(pr.dose) AS dose FROM prescriptions pr JOIN stays s ON pr.stay_id = s.stay_id JOIN drugs d ON d.drug = pr.drug WHERE s.ward = 'A' GROUP BY d.class

SELECT i.chapter, COUNT(*) FROM stays s LEFT JOIN icd i USING (code) GROUP BY i.chapter ORDER BY COUNT(*) DESC

SELECT SUBSTR(code, 1, 3) AS category, COUNT(*) AS n FROM stays WHERE code LIKE 'J%' GROUP BY category HAVING COUNT(*) > 5

SELECT regexp_extract(code, '^[A-Z]') AS chapter, COUNT(*) FROM stays GROUP BY chapter

SELECT year(admitted) AS y, week(admitted) AS w, COUNT(*) AS n FROM stays WHERE diagnosis = 'flu' GROUP BY y, w ORDER BY y, w

SELECT ward, bed_days, bed_days / SUM(bed_days) OVER () AS share FROM (SELECT ward, SUM(days) AS bed_days FROM stays GROUP BY ward) x

SELECT d::date AS day, COUNT(*) AS in_house FROM generate_series(DATE '1995-01-01', DATE '1995-01-14', INTERVAL 1 DAY) AS g(d) JOIN stays ON admitted <= d AND discharged > d GROUP BY 1 ORDER BY 1

SELECT patients_with, COUNT(*) FROM (SELECT patient_id, COUNT(DISTINCT diagnosis) AS patients_with FROM stays GROUP BY patient_id) x GROUP BY 1

SELECT COUNT(*) AS both_conditions FROM (SELECT patient_id FROM stays WHERE diagnosis = 'asthma' INTERSECT SELECT patient_id FROM stays WHERE diagnosis = 'flu') b

SELECT AVG(total_cost), MEDIAN(total_cost) FROM (SELECT patient_id, SUM(cost) AS total_cost FROM stays GROUP BY patient_id) t

SELECT ward, quantile_cont(days, 0.9) AS p90 FROM stays GROUP BY ward

SELECT ward, COUNT(*) FROM stays WHERE notes ILIKE '%smok%' GROUP BY ward

-- refused: A float cannot be a group
SELECT CAST(json_extract(notes, '$.bmi') AS DOUBLE) AS bmi, COUNT(*) FROM stays GROUP BY 1

SELECT AVG(LEAST(GREATEST(CAST(notes->>'bmi' AS DOUBLE), 10), 60)) AS bmi FROM stays

SELECT DATE_PART('month', admitted) AS month, diagnosis, COUNT(*) AS n FROM stays GROUP BY CUBE (month, diagnosis)

SELECT CORR(days, cost), REGR_SLOPE(cost, days) FROM stays

SELECT w.building, SUM(s.cost) AS cost, SUM(s.cost) / SUM(s.days) AS per_day FROM stays s NATURAL JOIN wards w GROUP BY w.building

WITH last_stay AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY admitted DESC, stay_id DESC) AS rn FROM stays)
SELECT p.sex, l.diagnosis, COUNT(*) AS n FROM last_stay l JOIN patients p ON p.id = l.patient_id WHERE l.rn = 1 GROUP BY p.sex, l.diagnosis

WITH moves AS (SELECT patient_id, ward, LAG(ward) OVER (PARTITION BY patient_id ORDER BY admitted, stay_id) AS from_ward FROM stays)
SELECT from_ward, ward AS to_ward, COUNT(*) AS n FROM moves WHERE from_ward <> ward GROUP BY 1, 2

SELECT diagnosis, COUNT(*) FROM stays s WHERE s.cost > (SELECT AVG(cost) FROM stays t WHERE t.patient_id = s.patient_id) GROUP BY diagnosis

SELECT ward, COUNT(*) FROM stays WHERE cost = (SELECT MAX(cost) FROM stays i WHERE i.patient_id = stays.patient_id) GROUP BY ward

-- refused: The column "name" is neither grouped nor inside an aggregate
SELECT name, birth_date FROM patients WHERE ward = 'A'

SELECT TRY_CAST(notes AS INTEGER) IS NULL AS not_a_number, COUNT(*) FROM stays GROUP BY 1

SELECT ward, diagnosis, COUNT(*) FILTER (urgent) AS urgent, COUNT(*) AS n FROM stays GROUP BY ALL ORDER BY ALL

FROM stays SELECT ward, COUNT(*) GROUP BY ward

SELECT ward, SUM(cost) FROM stays WHERE patient_id IN (SELECT id FROM patients WHERE sex = 'F') GROUP BY ward

SELECT ward, COUNT(*) FILTER (WHERE urgent) * 100.0 / NULLIF(COUNT(*), 0) AS pct_urgent FROM stays GROUP BY ward ORDER BY pct_urgent DESC

SELECT CASE WHEN days <= 1 THEN '0-1' WHEN days <= 3 THEN '2-3' WHEN days <= 7 THEN '4-7' ELSE '8+' END AS los_band, COUNT(*) AS stays, AVG(cost) AS avg_cost FROM stays GROUP BY los_band ORDER BY MIN(days)

SELECT date_trunc('month', admitted) AS m, COUNT(*) AS admissions, COUNT(DISTINCT patient_id) AS patients FROM stays WHERE admitted BETWEEN '1995-01-01' AND '1995-12-31' GROUP BY 1 ORDER BY 1

SELECT p.sex, s.diagnosis, COUNT(*) AS n, ROUND(AVG(s.days), 1) AS alos, ROUND(STDDEV(s.days), 1) AS sd FROM stays s INNER JOIN patients p ON p.id = s.patient_id GROUP BY p.sex, s.diagnosis HAVING COUNT(*) >= 10

SELECT COUNT(DISTINCT patient_id) FROM stays WHERE discharged IS NULL

SELECT FLOOR(DATE_DIFF('year', p.birth_date, s.admitted) / 10) * 10 AS age_decade, COUNT(*) FROM stays s JOIN patients p ON s.patient_id = p.id GROUP BY 1 ORDER BY 1

WITH readm AS (SELECT patient_id, admitted, LAG(discharged) OVER (PARTITION BY patient_id ORDER BY admitted) AS prev FROM stays) SELECT COUNT(*) FILTER (WHERE date_diff('day', prev, admitted) <= 30) AS readmitted, COUNT(*) AS all_stays FROM readm

SELECT w.building, s.diagnosis, SUM(s.cost) AS cost, SUM(SUM(s.cost)) OVER (PARTITION BY w.building) AS building_cost FROM stays s JOIN wards w USING (ward) GROUP BY w.building, s.diagnosis

SELECT EXTRACT(ISODOW FROM admitted) AS dow, COUNT(*) AS n FROM stays WHERE ward IN ('A', 'B') AND NOT urgent GROUP BY dow ORDER BY dow

SELECT d.class, COUNT(DISTINCT s.patient_id) AS patients FROM prescriptions r JOIN stays s ON s.stay_id = r.stay_id JOIN drugs d ON d.drug = r.drug GROUP BY d.class ORDER BY patients DESC LIMIT 10

SELECT ward, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY days) AS median_los, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY days) AS p90_los FROM stays GROUP BY ward

SELECT COUNT(*) AS n FROM patients p WHERE EXISTS (SELECT 1 FROM stays s WHERE s.patient_id = p.id AND s.urgent) AND NOT EXISTS (SELECT 1 FROM stays s WHERE s.patient_id = p.id AND s.diagnosis = 'heart')

SELECT n_stays, COUNT(*) AS patients FROM (SELECT patient_id, LEAST(COUNT(*), 5) AS n_stays FROM stays GROUP BY patient_id) t GROUP BY n_stays ORDER BY n_stays

SELECT ward, diagnosis, COUNT(*) AS n, RANK() OVER (PARTITION BY ward ORDER BY COUNT(*) DESC) AS r FROM stays GROUP BY ward, diagnosis QUALIFY r = 1

SELECT strftime(admitted, '%Y-W%V') AS wk, COUNT(*) FROM stays GROUP BY wk ORDER BY wk

SELECT ward, AVG(days) - (SELECT AVG(days) FROM stays) AS diff FROM stays GROUP BY ward

SELECT SUM(CASE WHEN diagnosis = 'flu' THEN 1 ELSE 0 END)::float / COUNT(*) AS flu_rate FROM stays WHERE extract(month FROM admitted) IN (12, 1, 2)

-- refused: a number of days already
SELECT EXTRACT(DAY FROM (discharged - admitted)) AS los, COUNT(*) FROM stays GROUP BY 1

SELECT first_ward, COUNT(*) AS patients FROM (SELECT patient_id, FIRST_VALUE(ward) OVER (PARTITION BY patient_id ORDER BY admitted) AS first_ward, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY admitted) AS rn FROM stays) q WHERE rn = 1 GROUP BY first_ward

SELECT DISTINCT ward FROM stays ORDER BY ward

-- One person a row, as in the Adult and census files: the unit of privacy is a row. Names with hyphens are quoted.

SELECT COUNT(*) FROM adult

SELECT sex, COUNT(*) FROM adult GROUP BY sex

SELECT education, AVG(age) FROM adult GROUP BY education ORDER BY AVG(age)

SELECT income, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM adult GROUP BY income

SELECT "marital-status", sex, COUNT(*) FROM adult GROUP BY "marital-status", sex

SELECT AVG("hours-per-week") FROM adult WHERE workclass = 'Private'

SELECT occupation, AVG("hours-per-week") AS hours FROM adult GROUP BY occupation HAVING COUNT(*) > 50 ORDER BY hours DESC LIMIT 5

SELECT age / 10 * 10 AS decade, COUNT(*) FROM adult GROUP BY decade ORDER BY decade

SELECT (age // 5) * 5 AS age_from, income, COUNT(*) FROM adult GROUP BY 1, 2 ORDER BY 1, 2

SELECT FLOOR(age / 10) AS decade, AVG(CASE WHEN income = '>50K' THEN 1 ELSE 0 END) AS rich FROM adult GROUP BY 1

SELECT sex, AVG(CASE WHEN income = '>50K' THEN 1.0 ELSE 0.0 END) AS share FROM adult GROUP BY sex

SELECT race, sex, COUNT(*) FILTER (WHERE income = '>50K') * 100.0 / COUNT(*) AS pct FROM adult GROUP BY race, sex

SELECT SUM("capital-gain") - SUM("capital-loss") AS net FROM adult

SELECT AVG("capital-gain") FROM adult WHERE "capital-gain" > 0

SELECT MEDIAN(age), QUANTILE_CONT(age, 0.1), QUANTILE_CONT(age, 0.9) FROM adult

SELECT approx_quantile(age, 0.5) FROM adult

SELECT MIN(age), MAX(age), AVG(age), STDDEV(age), COUNT(age) FROM adult

SELECT education, COUNT(*) FROM adult WHERE age >= 25 AND NOT ("native-country" = 'United-States') GROUP BY education

SELECT "native-country", COUNT(*) AS n FROM adult WHERE "native-country" <> '?' GROUP BY 1 ORDER BY n DESC LIMIT 10

SELECT COUNT(DISTINCT occupation) FROM adult

SELECT CASE WHEN "hours-per-week" < 35 THEN 'part' WHEN "hours-per-week" <= 45 THEN 'full' ELSE 'over' END AS hours, income, COUNT(*)
FROM adult GROUP BY ALL

SELECT workclass, COUNT(*) FROM adult WHERE workclass LIKE '%gov%' GROUP BY workclass

SELECT width_bucket(age, 20, 80, 6) AS bin, COUNT(*) FROM adult GROUP BY bin ORDER BY bin

SELECT bucket(age, [0, 18, 30, 45, 65, 120]) AS band, COUNT(*) FROM adult GROUP BY 1

SELECT NTILE(4) OVER (ORDER BY COUNT(*)) AS quartile, education FROM adult GROUP BY education

SELECT income, SUM(weight) AS people FROM adult GROUP BY income

SELECT SUM(age * weight) / SUM(weight) AS weighted_age FROM adult

SELECT COUNT(*) FROM adult WHERE age > 30 AND (sex = 'Male' OR education IN ('Masters', 'Doctorate')) AND relationship IS NOT NULL

SELECT income, VAR_POP(age), STDDEV_SAMP("hours-per-week") FROM adult GROUP BY income

SELECT education, sex, AVG("hours-per-week") FROM adult GROUP BY ROLLUP (education, sex)

SELECT SUM(CASE WHEN sex = 'Female' AND income = '>50K' THEN 1 END) AS n FROM adult

SELECT COUNT(CASE WHEN age < 30 THEN 1 END) AS young, COUNT(CASE WHEN age >= 30 THEN 1 END) AS old FROM adult

SELECT sex, covar_pop(age, "hours-per-week") FROM adult GROUP BY sex

SELECT REPLACE(education, '-', ' ') AS e, COUNT(*) FROM adult GROUP BY 1

SELECT LENGTH(occupation) AS l, COUNT(*) FROM adult GROUP BY l

SELECT CONCAT(sex, '/', race) AS who, COUNT(*) FROM adult GROUP BY who

SELECT sex || ' ' || income AS who, COUNT(*) FROM adult GROUP BY sex || ' ' || income

SELECT COUNT(*) FROM adult WHERE age BETWEEN 20 AND 29 OR age BETWEEN 40 AND 49

SELECT COUNT(*) FROM adult WHERE sex != 'Male'

-- refused: A float cannot be a group
SELECT ln(age) FROM adult GROUP BY 1

SELECT SUM(SQRT(age)), AVG(LN(age + 1)), AVG(ABS(age - 40)) FROM adult

SELECT SIGN("capital-gain") AS s, COUNT(*) FROM adult GROUP BY 1

SELECT MOD(age, 2) AS odd, COUNT(*) FROM adult GROUP BY 1

SELECT c.region, COUNT(*) FROM adult a JOIN countries c ON a."native-country" = c.country GROUP BY c.region

SELECT COUNT(*) FROM adult WHERE "native-country" NOT IN (SELECT country FROM countries WHERE region = 'Europe')

SELECT sex, income, COUNT(*) AS n, SUM(COUNT(*)) OVER (PARTITION BY sex) AS of_sex FROM adult GROUP BY sex, income

SELECT * FROM (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex) t ORDER BY n DESC

SELECT MAX(n) FROM (SELECT education, COUNT(*) AS n FROM adult GROUP BY education) t

-- refused: where the unit of privacy is a row
SELECT COUNT(*) FROM adult a JOIN adult b ON a.age = b.age

-- refused: SELECT * is not answered
SELECT * FROM adult LIMIT 10

-- refused: neither grouped
SELECT age, sex FROM adult WHERE income = '>50K'

-- refused: neither grouped
SELECT age, COUNT(*) FROM adult GROUP BY sex

-- refused: There is no column
SELECT AVG(hours-per-week) FROM adult

-- refused: A subquery in an expression
SELECT COUNT(*) FROM adult WHERE age > (SELECT AVG(age) FROM adult)

-- refused: LIMIT inside a subquery
SELECT AVG(age) FROM (SELECT age FROM adult LIMIT 100) t

SELECT "marital-status", sex, COUNT(*) AS n, AVG("hours-per-week") AS hours FROM adult GROUP BY 1, 2 ORDER BY n DESC

SELECT (age / 10)::int * 10 AS decade, income, COUNT(*) FROM adult GROUP BY decade, income ORDER BY decade

SELECT CASE WHEN age < 25 THEN '17-24' WHEN age < 45 THEN '25-44' WHEN age < 65 THEN '45-64' ELSE '65+' END AS band, AVG(CASE WHEN income = '>50K' THEN 1 ELSE 0 END) AS rich FROM adult GROUP BY band ORDER BY band

SELECT education, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct FROM adult GROUP BY education ORDER BY pct DESC

SELECT c.region, COUNT(*) AS n FROM adult a JOIN countries c ON a."native-country" = c.country GROUP BY c.region

SELECT occupation, AVG("capital-gain" - "capital-loss") AS net FROM adult GROUP BY occupation HAVING COUNT(*) > 30 ORDER BY net DESC LIMIT 5

SELECT sex, education, COUNT(*) AS n, RANK() OVER (PARTITION BY sex ORDER BY COUNT(*) DESC) AS r FROM adult GROUP BY sex, education

SELECT SUM(weight) AS population, SUM(weight * age) / SUM(weight) AS mean_age FROM adult

SELECT education, SUM(CASE WHEN income = '>50K' THEN weight ELSE 0 END) / SUM(weight) AS weighted_share FROM adult GROUP BY education

SELECT COUNT(*) FROM adult WHERE "capital-gain" > 0 OR "capital-loss" > 0

SELECT race, workclass, COUNT(*) AS n FROM adult WHERE workclass <> '?' AND age BETWEEN 25 AND 54 GROUP BY race, workclass

SELECT sex, income, COUNT(*) FROM adult GROUP BY GROUPING SETS ((sex, income), (sex), ())

SELECT TRIM(LOWER(occupation)) AS occ, COUNT(*) FROM adult GROUP BY occ

SELECT CORR(age, "hours-per-week") FROM adult WHERE sex = 'Male'

-- missing: "PIVOT" is not answered: only a query that begins with SELECT or WITH is
PIVOT adult ON sex USING COUNT(*) GROUP BY education

-- missing: PIVOT of private rows is not answered
SELECT * FROM (SELECT education, income FROM adult) PIVOT (COUNT(*) FOR income IN ('<=50K', '>50K'))

SELECT education, "Female", "Male", "Female" * 1.0 / NULLIF("Male", 0) AS ratio FROM (
  SELECT education, COUNT(*) FILTER (WHERE sex = 'Female') AS "Female", COUNT(*) FILTER (WHERE sex = 'Male') AS "Male" FROM adult GROUP BY education) t

SELECT sex, AVG(age) FROM adult WHERE education = ANY (['Bachelors', 'Masters']) GROUP BY sex

-- refused: HISTOGRAM is not answered
SELECT HISTOGRAM(age) FROM adult

-- refused: MODE is not answered
SELECT MODE(education) FROM adult

SELECT IF(age >= 65, 'retired', 'working') AS grp, COUNT(*) AS n, COUNT_IF(income = '>50K') AS rich FROM adult GROUP BY grp

SELECT AVG(age) AS "mean age", SQRT(VARIANCE(age)) AS sd, SQRT(VARIANCE(age) / COUNT(*)) AS se FROM adult

SELECT a.education, a.mean - b.mean AS gap FROM (SELECT education, AVG("hours-per-week") AS mean FROM adult WHERE sex = 'Male' GROUP BY education) a JOIN (SELECT education, AVG("hours-per-week") AS mean FROM adult WHERE sex = 'Female' GROUP BY education) b USING (education)

SELECT age, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY age) / SUM(COUNT(*)) OVER () AS cdf FROM adult GROUP BY age ORDER BY age

-- One wide table of page views, after ClickBench: "UserID" is protected.

SELECT COUNT(*) FROM hits

SELECT COUNT(*) FROM hits WHERE AdvEngineID <> 0

SELECT SUM(AdvEngineID), COUNT(*), AVG(ResolutionWidth) FROM hits

SELECT COUNT(DISTINCT UserID) FROM hits

SELECT COUNT(DISTINCT SearchPhrase) FROM hits

SELECT MIN(EventDate), MAX(EventDate) FROM hits

SELECT AdvEngineID, COUNT(*) FROM hits WHERE AdvEngineID <> 0 GROUP BY AdvEngineID ORDER BY COUNT(*) DESC

SELECT RegionID, COUNT(DISTINCT UserID) AS u FROM hits GROUP BY RegionID ORDER BY u DESC LIMIT 10

SELECT RegionID, SUM(AdvEngineID), COUNT(*) AS c, AVG(ResolutionWidth), COUNT(DISTINCT UserID) FROM hits
GROUP BY RegionID ORDER BY c DESC LIMIT 10

SELECT MobilePhoneModel, COUNT(DISTINCT UserID) AS u FROM hits WHERE MobilePhoneModel <> '' GROUP BY MobilePhoneModel ORDER BY u DESC LIMIT 10

SELECT SearchPhrase, COUNT(*) AS c FROM hits WHERE SearchPhrase <> '' GROUP BY SearchPhrase ORDER BY c DESC LIMIT 10

SELECT SearchEngineID, SearchPhrase, COUNT(*) AS c FROM hits WHERE SearchPhrase <> '' GROUP BY SearchEngineID, SearchPhrase ORDER BY c DESC LIMIT 10

-- refused: The unit of privacy
SELECT UserID, COUNT(*) FROM hits GROUP BY UserID ORDER BY COUNT(*) DESC LIMIT 10

-- refused: The unit of privacy
SELECT UserID, extract(minute FROM EventTime) AS m, SearchPhrase, COUNT(*) FROM hits GROUP BY UserID, m, SearchPhrase ORDER BY COUNT(*) DESC LIMIT 10

-- refused: The unit of privacy
SELECT UserID FROM hits WHERE UserID = 435090932899640449

SELECT COUNT(*) FROM hits WHERE URL LIKE '%google%'

-- refused: MIN expects a number
SELECT SearchPhrase, MIN(URL), COUNT(*) AS c FROM hits WHERE URL LIKE '%google%' AND SearchPhrase <> '' GROUP BY SearchPhrase ORDER BY c DESC LIMIT 10

-- refused: SELECT * is not answered
SELECT * FROM hits WHERE URL LIKE '%google%' ORDER BY EventTime LIMIT 10

-- refused: neither grouped
SELECT SearchPhrase FROM hits WHERE SearchPhrase <> '' ORDER BY EventTime LIMIT 10

SELECT CounterID, AVG(length(URL)) AS l, COUNT(*) AS c FROM hits WHERE URL <> '' GROUP BY CounterID HAVING COUNT(*) > 100 ORDER BY l DESC LIMIT 25

SELECT REGEXP_REPLACE(Referer, '^https?://(?:www[.])?([^/]+)/.*$', '\1') AS k, AVG(length(Referer)) AS l, COUNT(*) AS c
FROM hits WHERE Referer <> '' GROUP BY k HAVING COUNT(*) > 10 ORDER BY l DESC LIMIT 25

SELECT SUM(ResolutionWidth), SUM(ResolutionWidth + 1), SUM(ResolutionWidth + 2), SUM(ResolutionWidth + 3) FROM hits

SELECT SearchEngineID, ClientIP, COUNT(*) AS c, SUM(IsRefresh), AVG(ResolutionWidth) FROM hits WHERE SearchPhrase <> ''
GROUP BY SearchEngineID, ClientIP ORDER BY c DESC LIMIT 10

SELECT URL, COUNT(*) AS c FROM hits GROUP BY URL ORDER BY c DESC LIMIT 10

SELECT 1, URL, COUNT(*) AS c FROM hits GROUP BY 1, URL ORDER BY c DESC LIMIT 10

SELECT ClientIP, ClientIP - 1, ClientIP - 2, ClientIP - 3, COUNT(*) AS c FROM hits
GROUP BY ClientIP, ClientIP - 1, ClientIP - 2, ClientIP - 3 ORDER BY c DESC LIMIT 10

SELECT URL, COUNT(*) AS PageViews FROM hits WHERE CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31'
AND DontCountHits = 0 AND IsRefresh = 0 AND URL <> '' GROUP BY URL ORDER BY PageViews DESC LIMIT 10

SELECT TraficSourceID, SearchEngineID, AdvEngineID,
  CASE WHEN (SearchEngineID = 0 AND AdvEngineID = 0) THEN Referer ELSE '' END AS Src, URL AS Dst, COUNT(*) AS PageViews
FROM hits WHERE CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31' AND IsRefresh = 0
GROUP BY TraficSourceID, SearchEngineID, AdvEngineID, Src, Dst ORDER BY PageViews DESC LIMIT 10 OFFSET 100

SELECT DATE_TRUNC('minute', EventTime) AS M, COUNT(*) AS PageViews FROM hits
WHERE CounterID = 62 AND EventDate >= '2013-07-14' AND EventDate <= '2013-07-15' AND IsRefresh = 0 AND DontCountHits = 0
GROUP BY DATE_TRUNC('minute', EventTime) ORDER BY DATE_TRUNC('minute', EventTime) LIMIT 10 OFFSET 10

SELECT WindowClientWidth, WindowClientHeight, COUNT(*) AS PageViews FROM hits WHERE CounterID = 62
GROUP BY WindowClientWidth, WindowClientHeight ORDER BY PageViews DESC LIMIT 10

SELECT extract(hour FROM EventTime) AS h, COUNT(*) AS views, COUNT(DISTINCT UserID) AS users FROM hits GROUP BY h ORDER BY h

SELECT EventDate, COUNT(*) FROM hits GROUP BY EventDate ORDER BY EventDate

SELECT dayname(EventDate) AS day, COUNT(*) FROM hits GROUP BY 1

SELECT date_trunc('week', EventTime)::date AS week, COUNT(DISTINCT UserID) AS wau FROM hits GROUP BY 1 ORDER BY 1

SELECT AVG(views) FROM (SELECT UserID, COUNT(*) AS views FROM hits GROUP BY UserID) t

SELECT views, COUNT(*) FROM (SELECT UserID, LEAST(COUNT(*), 20) AS views FROM hits GROUP BY 1) GROUP BY 1 ORDER BY 1

SELECT CASE WHEN ResolutionWidth < 768 THEN 'phone' WHEN ResolutionWidth < 1280 THEN 'tablet' ELSE 'desktop' END AS device,
  COUNT(*) AS views, COUNT(DISTINCT UserID) AS users FROM hits GROUP BY device

SELECT COUNT(*) FROM hits WHERE regexp_matches(URL, '^https?://[a-z.]*example[.]com/(shop|cart)')

SELECT regexp_extract(URL, 'utm_source=([a-z]+)', 1) AS source, COUNT(*) AS n FROM hits GROUP BY 1 ORDER BY n DESC

SELECT split_part(URL, '/', 3) AS host, COUNT(*) FROM hits GROUP BY 1 ORDER BY 2 DESC LIMIT 10

SELECT COUNT(DISTINCT CASE WHEN IsMobile = 1 THEN UserID END) * 1.0 / COUNT(DISTINCT UserID) AS mobile_share FROM hits

SELECT EventDate, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY EventDate) AS change FROM hits GROUP BY EventDate ORDER BY EventDate

WITH daily AS (SELECT EventDate AS d, COUNT(*) AS n FROM hits GROUP BY 1)
SELECT d, n, AVG(n) OVER (ORDER BY d ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS moving FROM daily ORDER BY d

WITH first_seen AS (SELECT UserID, MIN(EventDate) AS first_day FROM hits GROUP BY UserID)
SELECT date_diff('week', f.first_day, h.EventDate) AS week, COUNT(DISTINCT h.UserID) AS users
FROM hits h JOIN first_seen f ON h.UserID = f.UserID GROUP BY 1 ORDER BY 1

WITH first_seen AS (SELECT UserID, date_trunc('week', MIN(EventDate)) AS cohort FROM hits GROUP BY UserID)
SELECT cohort, date_diff('week', cohort, date_trunc('week', EventDate)) AS age, COUNT(DISTINCT hits.UserID) AS users
FROM hits JOIN first_seen USING (UserID) GROUP BY cohort, age ORDER BY cohort, age

SELECT COUNT(*) AS bounced FROM (SELECT UserID, EventDate, COUNT(*) AS views FROM hits GROUP BY UserID, EventDate HAVING COUNT(*) = 1) s

SELECT toys.u / everyone.u FROM (SELECT COUNT(DISTINCT UserID) AS u FROM hits WHERE URL LIKE '%toys%') toys,
  (SELECT COUNT(DISTINCT UserID) AS u FROM hits) everyone

SELECT COUNT(*) FILTER (WHERE added) AS carts, COUNT(*) FILTER (WHERE bought) AS orders
FROM (SELECT UserID, BOOL_OR(URL LIKE '%cart%') AS added, BOOL_OR(URL LIKE '%order%') AS bought FROM hits GROUP BY UserID) t

SELECT quantile_cont(ResolutionWidth, 0.25), median(ResolutionWidth), quantile_cont(ResolutionWidth, 0.75) FROM hits

SELECT TraficSourceID, COUNT(*) FROM hits GROUP BY ROLLUP (TraficSourceID)

SELECT hour(EventTime) AS hour, dayofweek(EventTime) AS weekday, COUNT(*) AS n FROM hits GROUP BY ALL ORDER BY ALL

SELECT strftime(EventTime, '%Y-%m-%d %H:00') AS hour, COUNT(*) FROM hits GROUP BY 1

SELECT to_char(EventTime, 'YYYY-MM-DD') AS day, COUNT(*) FROM hits GROUP BY 1 ORDER BY 1

-- refused: inside a subquery
SELECT AVG(ResolutionWidth) FROM (SELECT ResolutionWidth FROM hits ORDER BY EventTime DESC LIMIT 100) recent

-- refused: OVER (…) is not answered
SELECT EventTime, ROW_NUMBER() OVER (PARTITION BY UserID ORDER BY EventTime) FROM hits

SELECT RegionID, SUM(AdvEngineID), COUNT(*) AS c, AVG(ResolutionWidth), COUNT(DISTINCT UserID) FROM hits GROUP BY RegionID ORDER BY c DESC LIMIT 10

SELECT extract(minute FROM EventTime) AS m, COUNT(*) FROM hits GROUP BY m ORDER BY m

SELECT URL, COUNT(*) AS PageViews FROM hits WHERE CounterID = 62 AND EventDate >= '1994-07-01' AND EventDate <= '1995-07-31' AND DontCountHits = 0 AND IsRefresh = 0 AND URL <> '' GROUP BY URL ORDER BY PageViews DESC LIMIT 10 OFFSET 0

SELECT REGEXP_REPLACE(Referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS k, AVG(length(Referer)) AS l, COUNT(*) AS c FROM hits WHERE Referer <> '' GROUP BY k HAVING COUNT(*) > 3 ORDER BY l DESC LIMIT 25

SELECT regexp_extract(URL, 'utm_source=([a-z]+)', 1) AS utm, COUNT(*) FROM hits WHERE URL LIKE '%utm_source=%' GROUP BY utm

SELECT SUM(ResolutionWidth), SUM(ResolutionWidth + 1), SUM(ResolutionWidth + 2) FROM hits

SELECT WindowClientWidth, WindowClientHeight, COUNT(*) AS PageViews FROM hits WHERE IsMobile = 0 GROUP BY WindowClientWidth, WindowClientHeight ORDER BY PageViews DESC LIMIT 10 OFFSET 100

SELECT DATE_TRUNC('minute', EventTime) AS M, COUNT(*) AS PageViews FROM hits WHERE EventDate >= '1994-07-14' AND EventDate <= '1994-07-15' GROUP BY M ORDER BY M LIMIT 10 OFFSET 10

SELECT TraficSourceID, SearchEngineID, CASE WHEN (SearchEngineID = 0 AND AdvEngineID = 0) THEN Referer ELSE '' END AS Src, COUNT(*) AS PageViews FROM hits GROUP BY TraficSourceID, SearchEngineID, Src ORDER BY PageViews DESC

SELECT COUNT(DISTINCT UserID) FROM hits WHERE MobilePhoneModel <> ''

SELECT AVG(c) FROM (SELECT UserID, COUNT(*) AS c FROM hits GROUP BY UserID) t

SELECT EventDate, COUNT(DISTINCT UserID) AS u, COUNT(*) / COUNT(DISTINCT UserID) AS pages_per_user FROM hits GROUP BY EventDate ORDER BY EventDate

SELECT IsMobile, COUNT(*) FROM (SELECT UserID, IsMobile, ROW_NUMBER() OVER (PARTITION BY UserID ORDER BY EventTime) AS rn FROM hits) WHERE rn = 1 GROUP BY IsMobile

SELECT CASE WHEN URL LIKE '%/shop/%' THEN 'shop' ELSE 'other' END AS part, COUNT(*), COUNT(DISTINCT UserID) FROM hits GROUP BY part

SELECT COUNT(*) FROM hits WHERE URL SIMILAR TO '.*utm_.*'

-- refused: MIN expects a number, got TEXT: the first or last text would be one person's
SELECT MIN(URL) FROM hits

SELECT host, COUNT(*) FROM (SELECT split_part(split_part(URL, '//', 2), '/', 1) AS host FROM hits) h GROUP BY host ORDER BY 2 DESC LIMIT 20

SELECT length(SearchPhrase) > 0 AS searched, AVG(ResolutionWidth) FROM hits GROUP BY 1

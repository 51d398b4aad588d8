-- columns and conditions
SELECT auction AS a, price * 2 AS twice, upper(channel) AS c, CASE WHEN price > 100 THEN 'high' ELSE 'low' END AS class
FROM {bid} WHERE price BETWEEN 60 AND 140 AND channel <> 'app' AND auction IS NOT NULL;

-- stars and aliases
SELECT b.* EXCEPT (at), b.at AS `the time` FROM {bid} AS b WHERE b.auction IN (1, 2);

-- a subquery and a common table
WITH large AS (SELECT auction, price, at FROM {bid} WHERE price > 100)
SELECT x.auction, x.euros FROM (SELECT auction, price * 0.9 AS euros FROM large) AS x WHERE x.euros > 100;

-- rows that a function makes
SELECT auction, explode(array(price, price + 1)) AS offer FROM {bid} WHERE auction = 3;

-- a running aggregate by a column
SELECT auction, count(*) AS n, max(price) AS high FROM {bid} GROUP BY auction;

-- over all rows
SELECT count(*) AS n, sum(price) AS total, count(DISTINCT bidder) AS bidders FROM {bid};

-- by an expression, an alias and a number
SELECT lower(channel) AS c, bidder % 2 AS side, avg(price) AS mean FROM {bid} GROUP BY c, 2;

-- a key inside an expression
SELECT concat('a', string(auction + 1)) AS name, sum(price) / count(*) + 1 AS mean FROM {bid} GROUP BY auction + 1;

-- having with an alias and with another aggregate
SELECT auction, count(*) AS n FROM {bid} GROUP BY auction HAVING n > 20 AND min(price) < 60;

-- filtered and distinct aggregates
SELECT bidder, count(*) FILTER (WHERE price > 100) AS high, count(DISTINCT auction, channel) AS pairs,
  sum(DISTINCT price % 7) AS odd
FROM {bid} GROUP BY bidder;

-- texts in an order
SELECT bidder, listagg(DISTINCT channel, ',') WITHIN GROUP (ORDER BY channel DESC) AS channels, count(price) AS n
FROM {bid} GROUP BY bidder;

-- an aggregate over an aggregate
SELECT n, count(*) AS auctions FROM (SELECT auction, count(*) AS n FROM {bid} GROUP BY auction) GROUP BY n;

-- tumbling windows
SELECT window.start AS begins, window.end AS ends, auction, sum(price) AS total
FROM {bid} GROUP BY auction, window(at, '10 seconds');

-- hopping windows under an alias
SELECT w.start AS s, w.end AS e, count(*) AS n FROM (SELECT window(at, '10 seconds', '4 seconds') AS w, count(*) AS n, bidder FROM {bid}
GROUP BY window(at, '10 seconds', '4 seconds'), bidder) GROUP BY w;

-- hopping windows that begin later
SELECT window(at, '10 seconds', '5 seconds', '2 seconds').start AS begins, max(price) - min(price) AS spread
FROM {bid} GROUP BY window(at, '10 seconds', '5 seconds', '2 seconds') HAVING count(*) > 5;

-- sessions
SELECT bidder, session_window.start AS begins, session_window.end AS ends, count(*) AS n
FROM {bid} GROUP BY bidder, session_window(at, '15 seconds');

-- windows of windows
SELECT window(w, '30 seconds').start AS half, sum(n) AS n FROM (
  SELECT window(at, '10 seconds') AS w, auction, count(*) AS n FROM {bid} GROUP BY 1, 2
) GROUP BY window(w, '30 seconds');

-- distinct keys of windows
SELECT DISTINCT bidder, window(at, '10 seconds').end AS ends FROM {bid} GROUP BY bidder, window(at, '10 seconds');

-- distinct rows
SELECT DISTINCT lower(channel) AS c, bidder FROM {bid};

-- rollup
SELECT bidder, channel, count(*) AS n, grouping(channel) AS g FROM {bid} GROUP BY ROLLUP (bidder, channel);

-- cube with an expression
SELECT bidder % 2 AS side, channel, sum(price) AS total, grouping_id() AS id FROM {bid} GROUP BY CUBE (bidder % 2, channel);

-- grouping sets in windows
SELECT window.start AS begins, bidder, channel, count(*) AS n
FROM {bid} GROUP BY window(at, '20 seconds'), GROUPING SETS ((bidder), (channel), ());

-- a key beside a rollup
SELECT auction, bidder, channel, count(*) AS n FROM {bid} GROUP BY auction, ROLLUP (bidder, channel);

-- top three of all rows
SELECT auction, bidder, price, at FROM {bid} QUALIFY ROW_NUMBER() OVER (ORDER BY price DESC, at) <= 3;

-- top two per key with the rank
SELECT auction, price, at, RANK() OVER (PARTITION BY auction ORDER BY price DESC) AS place
FROM {bid} WHERE auction IS NOT NULL QUALIFY place < 3;

-- dense rank in a subquery
SELECT * FROM (
  SELECT bidder, price, DENSE_RANK() OVER (PARTITION BY bidder ORDER BY price) AS r FROM {bid}
) WHERE r <= 2 AND bidder > 0;

-- one rank of several
SELECT bidder, price FROM (
  SELECT bidder, price, at, ROW_NUMBER() OVER (PARTITION BY bidder ORDER BY price DESC, at) AS r FROM {bid}
) AS t WHERE t.r = 3;

-- top of each window
SELECT w.start AS begins, auction, n FROM (
  SELECT w, auction, n, RANK() OVER (PARTITION BY w ORDER BY n DESC) AS r
  FROM (SELECT window(at, '10 seconds') AS w, auction, count(*) AS n FROM {bid} GROUP BY 1, 2)
) WHERE r = 1;

-- top of all windows
SELECT begins, auction, total FROM (
  SELECT window.start AS begins, auction, sum(price) AS total FROM {bid} GROUP BY window(at, '10 seconds'), auction
) QUALIFY ROW_NUMBER() OVER (ORDER BY total DESC, begins, auction) <= 4;

-- a rank over groups
SELECT auction, count(*) AS n, RANK() OVER (ORDER BY count(*) DESC, auction) AS r
FROM {bid} GROUP BY auction QUALIFY r <= 2;

-- keep the last row of a key
SELECT bidder, auction, price FROM {bid} QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder ORDER BY at DESC) = 1;

-- keep the first row of a key
SELECT bidder, auction, price FROM {bid} QUALIFY 1 = ROW_NUMBER() OVER (PARTITION BY bidder ORDER BY at);

-- join of all pairs
SELECT b.price, a.seller FROM {bid} b JOIN {auction} a ON b.auction = a.id AND b.price > 100 AND a.seller <> 'eve';

-- comma and where
SELECT b.price, a.seller, a.id + 1 AS next FROM {bid} b, {auction} a WHERE b.auction = a.id AND b.price % 10 = a.id;

-- left join without a bound
SELECT a.id, a.seller, b.price FROM {auction} a LEFT JOIN {bid} b ON a.id = b.auction AND b.price > 145;

-- right join
SELECT a.id, b.price FROM {bid} b RIGHT OUTER JOIN {auction} a ON a.id = b.auction AND b.price > 140 WHERE a.id <> 3;

-- full join
SELECT a.id, b.bidder, b.price FROM {auction} a FULL JOIN {bid} b ON a.id = b.auction AND b.price > 120;

-- semi join
SELECT seller FROM {auction} a LEFT SEMI JOIN {bid} b ON a.id = b.auction AND b.price > 140;

-- anti join
SELECT a.* FROM {auction} a LEFT ANTI JOIN {bid} b ON b.auction = a.id;

-- using
SELECT id, seller, n FROM {auction} JOIN (SELECT auction AS id, count(*) AS n FROM {bid} GROUP BY auction) USING (id);

-- interval by between
SELECT a.id, b.price, b.at FROM {auction} a JOIN {bid} b
ON a.id = b.auction AND b.at BETWEEN a.opened AND a.closes;

-- interval by comparisons in where
SELECT a.id, max(b.price) AS high FROM {auction} a JOIN {bid} b ON a.id = b.auction
WHERE b.at >= a.opened AND b.at < a.closes GROUP BY a.id;

-- interval from the other side
SELECT a.id, b.price FROM {bid} b JOIN {auction} a
ON a.id = b.auction AND a.opened >= b.at - INTERVAL 10 SECONDS AND a.opened <= b.at;

-- interval with the sides swapped
SELECT b.price, a.seller, b.at FROM {bid} b JOIN {auction} a
ON a.id = b.auction AND b.at > a.opened AND a.closes >= b.at;

-- left interval join
SELECT a.id, b.price FROM {auction} a LEFT JOIN {bid} b
ON a.id = b.auction AND b.at BETWEEN a.opened AND a.opened + INTERVAL '2' SECOND;

-- self join
SELECT x.bidder, x.price, y.price AS more FROM {bid} x JOIN {bid} y
ON x.bidder = y.bidder AND y.at BETWEEN x.at AND x.at + INTERVAL 3 SECONDS AND y.price > x.price;

-- join of windows
WITH counted AS (SELECT window(at, '10 seconds') AS w, auction, count(*) AS n FROM {bid} GROUP BY 1, 2),
highest AS (SELECT window(at, '10 seconds') AS w, auction, max(price) AS high FROM {bid} GROUP BY 1, 2)
SELECT c.auction, c.n, h.high, c.w.start AS begins FROM counted c JOIN highest h ON c.auction = h.auction AND c.w = h.w;

-- left join of windows
WITH a AS (SELECT window(at, '10 seconds') AS w, bidder, count(*) AS n FROM {bid} GROUP BY 1, 2),
b AS (SELECT window(at, '10 seconds') AS w, bidder, count(*) AS n FROM {bid} WHERE price > 130 GROUP BY 1, 2)
SELECT a.bidder, a.n, b.n AS large FROM a LEFT JOIN b ON a.bidder = b.bidder AND a.w.start = b.w.start AND a.w.end = b.w.end;

-- three streams
SELECT a.seller, b.price, n.city FROM {auction} a JOIN {bid} b ON a.id = b.auction AND b.price > 130
JOIN {names} n ON n.who = a.seller;

-- join with a table
SELECT a.id, n.city FROM {auction} a LEFT JOIN {names} n ON a.seller = n.who AND n.city <> 'Riga';

-- table before the stream
SELECT n.city, a.id FROM {names} n JOIN {auction} a ON a.seller = n.who WHERE n.city > 'C';

-- table of a query
SELECT a.id, t.big FROM {auction} a JOIN (SELECT who AS w, upper(city) AS big FROM {names} WHERE who <> 'ada') t
ON a.seller = t.w;

-- numbers of a range
SELECT b.price, r.id * 10 AS tens FROM {bid} b JOIN range(3) r ON b.auction = r.id;

-- union of all
SELECT auction AS id, price AS n FROM {bid} WHERE price > 140 UNION ALL SELECT id, id * 2 FROM {auction};

-- union of a stream with itself
SELECT bidder FROM {bid} WHERE price > 145 UNION ALL SELECT bidder FROM {bid} WHERE price > 140;

-- union of distinct rows
SELECT bidder AS x FROM {bid} UNION SELECT id FROM {auction};

-- values
SELECT b.price, v.label FROM {bid} b JOIN (VALUES (1, 'one'), (2, 'two')) AS v (n, label) ON b.auction = v.n;

-- a struct of a window under another name
SELECT named.start AS s, named.end AS e, n FROM (
  SELECT window AS named, count(*) AS n FROM {bid} GROUP BY window(at, '20 seconds')
);

-- the last row before each
SELECT b.bidder, b.at, b.price, h.price AS high, h.at AS since
FROM {bid} b ASOF JOIN (SELECT bidder, price, at FROM {bid} WHERE price > 100) h
  MATCH_CONDITION (b.at > h.at) ON b.bidder = h.bidder AND h.price > b.price
WHERE b.auction > 0 AND h.price < 140;

-- the last row before each within a time, or nothing
SELECT b.bidder, b.at, h.price AS high
FROM {bid} b LEFT ASOF JOIN (SELECT bidder, price, at FROM {bid} WHERE price > 130) h
  MATCH_CONDITION (h.at <= b.at) ON b.bidder = h.bidder AND h.at > b.at - INTERVAL 3 SECONDS AND h.price < 145;

-- the first row after each
SELECT b.price, b.at, h.at AS later
FROM {bid} b LEFT OUTER ASOF JOIN (SELECT bidder, at FROM {bid} WHERE price > 130) h
  MATCH_CONDITION (b.at <= h.at) ON b.bidder = h.bidder AND h.at < b.at + INTERVAL 5 SECONDS;

-- the last row before each, by a column of both
SELECT bidder, b.price, h.at AS since
FROM {bid} b ASOF JOIN (SELECT bidder, at FROM {bid} WHERE price > 130) h MATCH_CONDITION (b.at >= h.at) USING (bidder);

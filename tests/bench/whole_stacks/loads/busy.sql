-- SPDX-License-Identifier: Apache-2.0
-- A load for the stacks line: a query that does not end in the measured time.
CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, body TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
INSERT INTO t SELECT i, printf('name %d', i * 7919 % 3001), json_object('value', i % 97, 'text', hex(i)) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
SELECT sum(found) FROM (
  SELECT i, (SELECT count(*) FROM (
    SELECT json_extract(body, '$.value') AS value, group_concat(upper(name), ' ') AS names
    FROM t WHERE name LIKE '%' || i % 9 || '%' GROUP BY value ORDER BY names)) AS found
  FROM n);

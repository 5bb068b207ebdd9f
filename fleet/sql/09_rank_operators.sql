-- What each rank's operators took by themselves.
-- A view: other questions build on it. One row a rank and operator; sums in ns.
SELECT o.job, o.attempt, o.rank, o.name, SUM(o.self_ns) AS self_ns, SUM(o.calls) AS calls
FROM operators o JOIN captures k ON k.input = o.input AND k.is_main = 1
GROUP BY o.job, o.attempt, o.rank, o.name

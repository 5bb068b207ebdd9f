-- What recordings have lost.
-- One row a rank and counter of the ledger that is a loss and not 0 (docs/reference/ledger.md).
SELECT l.job, l.attempt, l.host, l.rank, l.ledger, l.counter, SUM(l.count) AS count
FROM losses l
WHERE l.count > 0 AND (l.counter LIKE '%lost%' OR l.counter LIKE '%malformed%' OR l.counter LIKE '%read_failed%')
GROUP BY l.job, l.attempt, l.host, l.rank, l.ledger, l.counter
ORDER BY count DESC, l.job, l.attempt, l.host, l.rank, l.ledger, l.counter

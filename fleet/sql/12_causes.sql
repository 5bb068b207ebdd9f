-- Where the excess of slow ranks is: each part of their time.
-- One row a slow rank and part, the largest first; ns a step, and the share of the rank's excess. Parts below 0 are shorter than
-- those of the ranks that are alike.
SELECT r.job, r.attempt, r.rank, r.host, p.part, p.ns, p.ns / r.excess_ns AS share
FROM ranks r JOIN rank_parts p ON r.job = p.job AND r.attempt = p.attempt AND r.rank = p.rank
WHERE r.is_slow = 1 AND p.part <> 'own time'
ORDER BY r.job, r.attempt, r.rank, p.ns DESC, p.part

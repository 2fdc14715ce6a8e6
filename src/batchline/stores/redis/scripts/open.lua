-- open(now, ttl_ms, tolerate, labels): begin a fanout without items. tolerate is empty for any number of failures,
-- labels, a JSON object, for none.
-- Answers all that is kept of it. Repeated, it changes nothing but the activity: what it was first opened with stays.

if not known then
  redis.call('HSET', key, 'total', 0, 'pending', 0, 'failed', 0, 'opened_us', now, 'active_us', now, 'ttl_ms', ARGV[2])
  if ARGV[3] ~= '' then
    redis.call('HSET', key, 'tolerate', ARGV[3])
  end
  if ARGV[4] ~= '' then
    redis.call('HSET', key, 'labels', ARGV[4])
  end
end
touch()
return redis.call('HGETALL', key)

-- fail(now, count): so many items have failed for good; they are done, and counted apart. Answers as ack does, and
-- like it counts again when it is repeated.

if not known then
  return false
end
touch()
redis.call('HINCRBY', key, 'failed', ARGV[2])
return {redis.call('HINCRBY', key, 'pending', '-' .. ARGV[2]), finish()}

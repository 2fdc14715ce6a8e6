-- add(now, count): so many items more. Answers {total, nil}, or {nil, sealed_us} for a sealed fanout, which stays as
-- it is. Repeated, it counts again.

if not known then
  return false
end
local sealed_us = get('sealed_us')
if sealed_us then
  return {false, sealed_us}
end
touch()
redis.call('HINCRBY', key, 'pending', ARGV[2])
return {redis.call('HINCRBY', key, 'total', ARGV[2]), false}

-- seal(now, call): no item can be added any more. Answers {pending, end}, where end is what this call ended it as, or
-- nil. Sealing again changes nothing but the activity; the call that was told of the end is told again.

if not known then
  return false
end
if not get('sealed_us') then
  redis.call('HSET', key, 'sealed_us', now)
end
touch()
return {tonumber(get('pending')), finish(ARGV[2])}

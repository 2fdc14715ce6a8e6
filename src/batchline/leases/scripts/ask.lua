-- ask(instance, lease_ms, forget_ms, wanted, held): note what an instance says, or, if it wants and holds nothing, forget
-- it. Answers instance, wanted and held of all that were heard of within a lease. Who was not heard of for long is removed.

local instance, lease_ms, forget_ms, wanted, held = unpack(ARGV)
if wanted == '0' and held == '' then
  redis.call('HDEL', askings_key, instance)
else
  redis.call('HSET', askings_key, instance, written(now_us) .. ' ' .. wanted .. ' ' .. held)
  redis.call('PEXPIRE', askings_key, forget_ms)
end

local said = {}
local kept = redis.call('HGETALL', askings_key)
for place = 1, #kept, 2 do
  local heard_us, wants, holds = string.match(kept[place + 1], '^(%d+) (%d+) (.*)$')
  local age_ms = (now_us - tonumber(heard_us)) / 1000
  if age_ms > tonumber(forget_ms) then
    redis.call('HDEL', askings_key, kept[place])
  elseif age_ms <= tonumber(lease_ms) then
    said[#said + 1] = {kept[place], wants, holds}
  end
end
return said

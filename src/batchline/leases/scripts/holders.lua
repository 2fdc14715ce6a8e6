-- holders(): number and holder of each partition that is held.

local held = {}
local kept = redis.call('HGETALL', partitions_key)
for place = 1, #kept, 2 do
  local until_us, holder = read(kept[place + 1])
  if until_us > now_us and holder ~= '' then
    held[#held + 1] = {tonumber(kept[place]), holder}
  end
end
return held

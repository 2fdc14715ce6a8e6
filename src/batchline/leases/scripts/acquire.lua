-- acquire(instance, lease_ms, most, number, …): lease at most so many partitions, tried in this order, that are there and
-- that no other instance holds. Answers which, or nil if there is no such resource.

if redis.call('EXISTS', size_key) == 0 then
  return false
end

local instance, lease_ms, most = ARGV[1], ARGV[2], tonumber(ARGV[3])
local numbers, kept = asked(4)
local taken = {}
for place, number in ipairs(numbers) do
  local until_us, holder = read(kept[place])
  if #taken < most and until_us and (holder == instance or until_us <= now_us) then
    lease(number, instance, lease_ms)
    taken[#taken + 1] = tonumber(number)
  end
end
return taken

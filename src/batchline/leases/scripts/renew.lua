-- renew(instance, lease_ms, number, …): lease those of these partitions once more that an instance still holds. Answers
-- which.

local instance, lease_ms = ARGV[1], ARGV[2]
local numbers, kept = asked(3)
local still = {}
for place, number in ipairs(numbers) do
  local until_us, holder = read(kept[place])
  if holder == instance and until_us > now_us then
    lease(number, instance, lease_ms)
    still[#still + 1] = tonumber(number)
  end
end
return still

-- release(instance, number, …): give those of these partitions back that an instance holds.

local numbers, kept = asked(2)
for place, number in ipairs(numbers) do
  local _, holder = read(kept[place])
  if holder == ARGV[1] then
    redis.call('HSET', partitions_key, number, '0 ')
  end
end
return 0

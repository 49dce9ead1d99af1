-- A checksum over numbers that are written together.
--
-- What is kept for several plans is not part of a reply, so only the script can check its numbers.
-- If the checksum is wrong, no script wrote them.
--
-- Returns  a function of the numbers, which returns their checksum. It is NaN if one of them is.
return function(...)
  local sum = 0
  for _, number in ipairs({ ... }) do
    sum = (sum * 31 + number % 4294967291) % 4294967291
  end
  return sum
end

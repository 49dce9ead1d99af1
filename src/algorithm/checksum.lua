-- A sum over numbers that are written together.
--
-- What is kept for several plans is not replied, so nobody but its script can see that its numbers
-- make sense. Numbers that do not have the sum that was written with them are from somebody else.
--
-- Returns  a function: it is given the numbers, and returns their sum. The sum of what is not a
--          number is not one.
return function(...)
  local sum = 0
  for _, number in ipairs({ ... }) do sum = (sum * 31 + number % 4294967291) % 4294967291 end
  return sum
end

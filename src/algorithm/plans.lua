-- What the scripts share whose state may be counted under several plans.
--
-- A plan is one configuration of a policy: callers with different plans may share a state, in turn. It is a table
-- with its `id`, what is counted under it, and `expires_at`, the microsecond from which on that matters no more.
-- The last cost was admitted under the latest plan. One other plan is counted beside it, and every admission is
-- charged to both. Of further plans is kept until when they matter.
--
-- A script says `require('plans')` where it meets a state of another plan, and only there. This text then stands
-- in that place, so that a state of one plan pays nothing for it.
--
-- Given    now, in microseconds
-- Returns  a table with the functions below. The script sets its fields:
--          latest, other         plans; there may be no other
--          further_until         the microsecond until which further plans matter; 0 if there are none
--          own                   the caller's plan, if it is the latest or the other one: see `find`
--          stamp_of(plan)        the microsecond at which it was counted
--          move_to_now(plan)     moves what was counted in the future to now
--          expiry_of(plan)       the microsecond from which on what it has counted matters no more
local plans = { further_until = 0 }

-- Fails unless all are numbers that a script has written: whole, not negative, and exact as doubles.
function plans.check(...)
  for _, number in ipairs({ ... }) do
    if not (number >= 0 and number < 2 ^ 53 and number % 1 == 0) then error('UNREADABLE state') end
  end
end

-- Finds the plan of the caller.
function plans.find(id)
  for _, plan in ipairs({ plans.latest, plans.other }) do
    if plan.id == id then
      plans.own = plan
      return
    end
  end
end

-- How far the caller's plan is ahead of now, or, if it is not counted, the latest.
function plans.ahead()
  return plans.stamp_of(plans.own or plans.latest) - now
end

-- The clock has stepped back: moves everything that is ahead to now.
function plans.move_back()
  if plans.further_until > 0 then plans.further_until = math.max(plans.further_until - plans.ahead(), 1) end
  for _, plan in ipairs({ plans.latest, plans.other }) do
    local ahead = plans.stamp_of(plan) - now
    if ahead > 0 then
      plan.expires_at = math.max(plan.expires_at - ahead, 0)
      plans.move_to_now(plan)
    end
  end
end

-- A cost was admitted under the caller's plan, which is to be the latest: chooses the other one, which it
-- returns. Of two the one is kept that matters longer.
function plans.choose_other()
  local latest, other, further_until = plans.latest, plans.other, plans.further_until
  if plans.own ~= latest then
    latest.expires_at = plans.expiry_of(latest)
    if not plans.own and other and other.expires_at > now then
      local dropped = latest
      if dropped.expires_at > other.expires_at then other, dropped = dropped, other end
      further_until = math.max(further_until, dropped.expires_at)
    else
      other = latest
    end
  end
  if further_until <= now then further_until = 0 end
  if other and other.expires_at <= now then other = nil end
  plans.other, plans.further_until = other, further_until
  return other
end

-- Whether any plan but the latest is to be kept.
function plans.are_several()
  return plans.other ~= nil or plans.further_until > 0
end

-- The microsecond from which on no plan matters.
function plans.expire_at()
  local other = plans.other
  return math.max(plans.expiry_of(plans.latest), other and other.expires_at or 0, plans.further_until)
end

return plans

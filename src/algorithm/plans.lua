-- What the scripts share whose state may be counted under several plans.
--
-- A plan is one configuration of a policy: callers with different plans may share a state, in turn.
-- It is a table with its numbers, what is counted under it, and `expires_at`, the microsecond from
-- which on that no longer matters. The last cost was admitted under the latest plan. One other plan
-- is counted beside it, and every admission is charged to both. Further plans are kept as one: the
-- most units that any of them had counted, the latest instant at which one did, until when that
-- matters, and for how long after its own stamp a count matters at most.
--
-- A script says `require('plans')` where it meets a state of another plan, and only there. This
-- text then stands in that place, so that a state of one plan pays nothing for it.
--
-- Given    now, in microseconds
-- Returns  a table with the functions below. The script sets its fields:
--          latest, other         plans; there may be no other
--          further               what is kept of further plans, if there are any: units, stamp,
--                                expires_at and span
--          own                   the caller's plan, if it is the latest or the other one (`find`
--                                sets it)
--          units_of(plan)        at least as many units as it has counted
--          stamp_of(plan)        the microsecond at which it was counted
--          move_to_now(plan)     moves what was counted in the future to now
--          expiry_of(plan)       the microsecond from which on what it has counted no longer
--                                matters
local plans = {}

-- Fails unless all are numbers that a script has written: whole, not negative, and exact
-- as doubles.
function plans.check(...)
  for _, number in ipairs({ ... }) do
    if not (number >= 0 and number < 2 ^ 54 and number % 1 == 0) then
      error('UNREADABLE state')
    end
  end
end

-- Reads what is kept of further plans: all zeros if there are none.
function plans.read_further(units, stamp, expires_at, span)
  plans.check(units, stamp, expires_at, span)
  if expires_at > 0 then
    plans.further = { units = units, stamp = stamp, expires_at = expires_at, span = span }
  end
end

-- The numbers that `read_further` reads back.
function plans.further_numbers()
  local further = plans.further or { units = 0, stamp = 0, expires_at = 0, span = 0 }
  return further.units, further.stamp, further.expires_at, further.span
end

-- Finds the plan of the caller: the one of which `is_own` holds.
function plans.find(is_own)
  for _, plan in ipairs({ plans.latest, plans.other }) do
    if is_own(plan) then
      plans.own = plan
      return
    end
  end
end

-- How far the caller's plan is ahead of now; if it has not counted, how far its first
-- count is.
function plans.ahead()
  if plans.own then return plans.stamp_of(plans.own) - now end
  return math.max(
    plans.stamp_of(plans.latest), plans.further and plans.further.stamp or 0) - now
end

-- The clock has stepped back: moves everything that is ahead to now.
function plans.move_back()
  local further = plans.further
  if further and further.stamp > now then
    further.stamp = now
    further.expires_at = math.max(math.min(further.expires_at, now + further.span), 1)
  end
  for _, plan in ipairs({ plans.latest, plans.other }) do
    local stamp = plans.stamp_of(plan)
    if stamp > now then
      plans.move_to_now(plan)
      plan.expires_at = math.max(plan.expires_at - (stamp - plans.stamp_of(plan)), 0)
    end
  end
end

-- The caller's plan has admitted a cost and becomes the latest: chooses the other plan,
-- and returns it. Of two plans the one that matters longer is kept.
function plans.choose_other()
  local latest, other, further = plans.latest, plans.other, plans.further
  if further and further.expires_at <= now then further = nil end
  if plans.own ~= latest then
    latest.expires_at = plans.expiry_of(latest)
    if not plans.own and other and other.expires_at > now then
      local dropped = latest
      if dropped.expires_at > other.expires_at then other, dropped = dropped, other end
      if dropped.expires_at > now then
        local stamp, expires_at = plans.stamp_of(dropped), dropped.expires_at
        further = further or { units = 0, stamp = 0, expires_at = 0, span = 0 }
        further = {
          units = math.max(further.units, plans.units_of(dropped)),
          stamp = math.max(further.stamp, stamp),
          expires_at = math.max(further.expires_at, expires_at),
          span = math.max(further.span, expires_at - stamp),
        }
      end
    else
      other = latest
    end
  end
  if other and other.expires_at <= now then other = nil end
  plans.other, plans.further = other, further
  return other
end

-- Whether any plan but the latest is to be kept.
function plans.are_several()
  return plans.other ~= nil or plans.further ~= nil
end

-- The microsecond from which on no plan's count matters.
function plans.expire_at()
  local other, further = plans.other, plans.further
  return math.max(plans.expiry_of(plans.latest), other and other.expires_at or 0,
    further and further.expires_at or 0)
end

return plans

-- Asks for the first page of the conversations of a random account.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

local tokens

function init()
    tokens = sessions()
    math.randomseed(seed)
end

function request()
    local n = math.random(10000)
    return wrk.format("GET", "/api/chat/conversations/user/u" .. n .. "@bench.test?limit=20",
        { Authorization = tokens[n] })
end

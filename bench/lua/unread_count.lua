-- Each account reads its own unread count, in random order. All 10,000 requests are assembled at the start.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

local requests = {}

function init()
    local tokens = sessions()
    math.randomseed(seed)
    for n = 1, 10000 do
        requests[n] = wrk.format("GET", "/api/chat/unread-count/u" .. n .. "@bench.test",
            { Authorization = tokens[n] })
    end
end

function request()
    return requests[math.random(10000)]
end

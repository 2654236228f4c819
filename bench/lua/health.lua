-- Asks for the liveness every 2 ms on each connection, so that these requests are no load.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

function delay()
    return 2
end

function request()
    return wrk.format("GET", "/api/health")
end

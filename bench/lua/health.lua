-- Liveness, asked every 2 ms on each connection, so that the asking itself loads nothing.
local here = debug.getinfo(1, "S").source:match("@(.*/)")
dofile(here .. "common.lua")

function delay()
    return 2
end

function request()
    return wrk.format("GET", "/api/health")
end

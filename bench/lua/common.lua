-- Shared by wrk's scripts: the sessions, and the figures of a run as one line of text. TOKENS names a file with
-- the token of u1@bench.test in line 1, and so on; it is empty for the peer.

local threads = 0

function sessions()
    local tokens, file = {}, os.getenv("TOKENS")
    if file and file ~= "" then
        for line in io.lines(file) do
            tokens[#tokens + 1] = "Bearer " .. line
        end
    end
    return tokens
end

-- Each thread gets a different seed.
function setup(thread)
    thread:set("seed", os.time() + 7919 * threads)
    threads = threads + 1
end

-- Prints the rate; p50, p99 and the longest latency in microseconds; the numbers of requests, of responses other than
-- 2xx, and of lost requests.
function done(summary, latency)
    local e = summary.errors
    io.write(string.format("figures %.1f %d %d %d %d %d %d\n",
        summary.requests / summary.duration * 1e6, latency:percentile(50), latency:percentile(99),
        latency.max, summary.requests, e.status, e.connect + e.read + e.write + e.timeout))
end

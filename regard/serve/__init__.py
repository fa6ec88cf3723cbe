"""`regard serve`: a page and an API for runs, on the machine that is there.

settings   what may be asked of a server, and how much of it
work       what a client asks of a model; queue: who is let in, and who must come later
service    a run that is served: dynamic batches, or sentences that join a running search
aside      what no batch computes
guard      what stands before every route: keys, rates, sizes, headers; protocol: slow clients
routes/    one file for each family
app        all of it together; server: sockets, signals, processes
"""

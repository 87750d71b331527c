--: all handlers: the function, the role that runs it, its state, and the reason if it cannot run jobs now
CREATE VIEW jobq.handlers AS
SELECT h.queue, h.kind, h.handler, h.run_as, s.state, s.reason, s.running, s.executors, h.max_executors, h.versions,
       h.capabilities, h.settings, h.created_at
FROM jobq.handler_settings h, LATERAL jobq.handler_state(h.queue, h.kind, h.handler, h.run_as, h.settings) s;

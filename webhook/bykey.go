package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
	"github.com/fermata-ai/fermata/tool"
)

// KeyConfig configures a handler of [ByKey].
type KeyConfig struct {
	// Verifier checks who signed. It is required: the key of a call is no
	// secret.
	Verifier Verifier
	// Tool is the tool whose calls the keys are of, unless an Action names
	// another one.
	Tool string
	// Key is a JSON Pointer (RFC 6901) to the key in an event's Data: a string
	// or a number. KeyFunc is in its place where that is not enough. The key
	// is what the tool gave as Await.Key.
	Key     string
	KeyFunc func(Event) (string, error)
	// Format finds the events in a body; default FromJSON.
	Format Format
	// Map says what an event means; default: an event with a key completes its
	// call, with its Data as the output, and one without means nothing.
	Map Mapping
	// Keep, if set, has completions and failures kept whose key no call has
	// yet, and judged when one does. It is for senders that never deliver
	// again. An event that is over an hour old, by its own Time, is not kept.
	Keep *runner.Keep
	// Actor is the actor in the receipts; default: who has signed.
	Actor runner.Actor

	// These are as in Config.
	MaxBody     int64
	ReadTimeout time.Duration
	Now         func() time.Time
	Logger      *slog.Logger
	Limits      Limits // Token doesn't count here
}

// ByKey returns a handler for a sender that knows nothing of tokens: it signs
// what it sends, and names its job by an id of its own. A tool gives that id as
// Await.Key when it pauses.
//
//	hook, err := webhook.ByKey(rn, webhook.KeyConfig{
//		Verifier: ci, Tool: "build", Key: "/job/id",
//	})
//	http.Handle("/ci", hook)
//
// What is done comes from the signed body alone. Path, query and other headers
// than the verifier's name nothing, and the Content-Type isn't looked at.
//
// A body may hold several events, and an event may mean several actions. Each
// is judged by itself, in order. The answer has a list of what became of them:
// 200 {"status": "accepted", "results": [...]}, also where an event means
// nothing, and then nothing is left of it. If one could not be taken now, the
// answer as a whole is its 503, and the sender sends all of it again, which
// does no harm to the others. If all are refused, it is the first one's
// refusal. If some are, it is 200, since to send them again is of no use.
//
// A key that no call has yet is a 503, since a sender may be faster than the
// commit of the pause; once the event is over an hour old, by its own Time, it
// is a 404. The same is told of a key whose call waits for another sender. With
// KeyConfig.Keep it is 200 with the fate "kept".
func ByKey(rn *runner.Runner, c KeyConfig) (http.Handler, error) {
	switch {
	case rn == nil:
		return nil, errors.New("webhook: the runner is nil")
	case c.Verifier == nil:
		return nil, errors.New("webhook: KeyConfig.Verifier is nil; a key is no secret, " +
			"so a signature has to say who sends")
	case c.Key != "" && c.KeyFunc != nil:
		return nil, errors.New("webhook: KeyConfig has a Key and a KeyFunc, and takes one")
	case c.Map == nil && c.Key == "" && c.KeyFunc == nil:
		return nil, errors.New("webhook: KeyConfig has no Key, no KeyFunc and no Map, " +
			"so that no event would mean anything")
	case c.Map == nil && c.Tool == "":
		return nil, errors.New("webhook: KeyConfig.Tool is empty: a key is a tool's own name for its job")
	}
	if c.Key != "" {
		at, err := parsePointer(c.Key)
		if err != nil {
			return nil, err
		}
		c.KeyFunc = func(e Event) (string, error) { return at.key(e.Data), nil }
	}
	if c.KeyFunc == nil {
		c.KeyFunc = func(Event) (string, error) { return "", nil }
	}
	if c.Format == nil {
		c.Format = FromJSON
	}
	if c.Map == nil {
		c.Map = completes
	}
	d, err := newDoor(door{verifier: c.Verifier, bodies: bodies(c.MaxBody, c.ReadTimeout),
		now: c.Now, logger: c.Logger}, c.Limits)
	if err != nil {
		return nil, err
	}
	return &byKey{door: d, rn: rn, config: c}, nil
}

// completes is the default Mapping.
func completes(e Event) ([]Action, error) {
	if e.Key == "" {
		return nil, nil
	}
	return []Action{{Do: tool.PermitComplete, Payload: e.Data}}, nil
}

// maxEvents is how many events a body may hold. Each may be a commit.
const maxEvents = 100

// byKey is what ByKey returns. It does not change.
type byKey struct {
	door
	rn     *runner.Runner
	config KeyConfig
}

func (h *byKey) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	patient := h.bodies.LimitReading(w, r)
	events, err := h.open(w, r)
	if err != nil {
		h.refuse(w, r, err, nil)
		return
	}
	patient() // the store may take longer than the sender may
	results, errs := []outcome{}, []error(nil)
	for i, e := range events {
		for _, out := range h.judge(r, e) {
			out.Item = i
			results = append(results, out.outcome)
			errs = append(errs, out.err)
		}
	}
	if err := verdict(errs); err != nil {
		h.refuse(w, r, err, results)
		return
	}
	accept(w, &outcomes{Status: statusAccepted, Results: results})
}

// open returns the events of a request that is signed.
func (h *byKey) open(w http.ResponseWriter, r *http.Request) ([]Event, error) {
	if err := h.knock(r); err != nil {
		return nil, err
	}
	if err := errors.Join(onlyPost(w, r), httpin.Plain(w, r)); err != nil {
		return nil, err
	}
	body, err := h.bodies.Read(w, r)
	if err != nil {
		return nil, err
	}
	by, err := h.verify(r, body)
	if err != nil {
		return nil, err
	}
	events, err := h.events(httpin.Unmarked(body))
	if err != nil {
		return nil, err
	}
	if len(events) > maxEvents {
		return nil, httpin.Refuse("too_large", fmt.Sprintf(
			"a body has at most %d events, and this one has %d", maxEvents, len(events)))
	}
	for i := range events {
		events[i].Signed = by
	}
	return events, nil
}

// judged is an outcome with its error.
type judged struct {
	outcome
	err error
}

// judge does what an event means.
func (h *byKey) judge(r *http.Request, e Event) []judged {
	if e.Err != nil {
		return []judged{h.tell(r, answer{}, e.Err)}
	}
	actions, err := h.meaning(&e)
	var broken *panicError
	switch {
	case errors.As(err, &broken): // ours to mend: the event may be good
		return []judged{h.tell(r, answer{}, err)}
	case err != nil:
		h.logger.WarnContext(r.Context(), "an event of a webhook can't be read",
			"sender", e.Sender, "delivery", e.Delivery, "error", err)
		return []judged{h.tell(r, answer{}, httpin.Refuse("invalid", "the event can't be read"))}
	}
	var all []judged
	for _, a := range actions {
		if a.Do == "" {
			continue
		}
		done, err := h.act(r.Context(), e, a)
		all = append(all, h.tell(r, done, err))
	}
	if len(all) == 0 {
		return []judged{{outcome: outcome{answer: answer{Status: statusIgnored}}}}
	}
	return all
}

// meaning returns what an event means, and notes its key.
func (h *byKey) meaning(e *Event) (_ []Action, err error) {
	defer caught(&err)
	if e.Key, err = h.config.KeyFunc(*e); err != nil {
		return nil, err
	}
	return h.config.Map(*e)
}

// events returns what a body holds.
func (h *byKey) events(body []byte) (_ []Event, err error) {
	defer caught(&err)
	return h.config.Format(body)
}

// panicError is a panic in code of the user's. An event that brings it about is
// asked for again, and the log has the stack.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("webhook: KeyConfig's code panicked: %v\n%s", e.value, e.stack)
}

// caught makes an error of a panic.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = &panicError{v, debug.Stack()}
	}
}

// outcome returns what is told of an action. An error on this side goes to the
// log.
func (h *byKey) tell(r *http.Request, done answer, err error) judged {
	if err == nil {
		return judged{outcome: outcome{answer: done}}
	}
	p := ProblemOf(err)
	p.Call, p.Pause = done.Call, done.Pause
	if p.Status >= 500 && !errors.Is(err, session.ErrNotYetKnown) {
		h.logger.ErrorContext(r.Context(), "an event of a webhook was not taken",
			"call", done.Call, "status", p.Status, "error", err)
	}
	return judged{outcome{answer: answer{Status: statusRefused}, Problem: &p}, err}
}

// verdict returns the error of a request as a whole, by those of its parts: one
// of this side's, which may pass, perhaps once a record is mended; or, if
// nothing was of use, the first one.
func verdict(errs []error) error {
	useful := len(errs) == 0
	for _, err := range errs {
		useful = useful || err == nil
		if err != nil && Status(err) >= http.StatusInternalServerError {
			return err
		}
	}
	if useful {
		return nil
	}
	return errs[0]
}

// refuse answers that a request as a whole is refused, and why.
func (h *byKey) refuse(w http.ResponseWriter, r *http.Request, err error, results []outcome) {
	p := ProblemOf(err)
	if len(results) == 0 && p.Status >= 500 { // those with results are in the log
		h.logger.ErrorContext(r.Context(), "a webhook could not be checked", "error", err)
	}
	if len(results) == 1 {
		p, results = *results[0].Problem, nil
	}
	writeProblem(w, err, p.Status, &refusals{Problem: p, Results: results})
}

// actor returns who acts.
func (h *byKey) actor(e Event) runner.Actor {
	return cmp.Or(h.config.Actor, runner.Actor(e.Sender))
}

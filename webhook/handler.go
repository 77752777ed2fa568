package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/runner"
)

// handler is what New returns. It judges a request from the outside in, the
// cheapest check first: the path, the method, the token, the headers, the body.
// It reads nothing of a body whose sender has no token. It does not change, so
// that each request may run in a goroutine of its own; a delivery belongs to
// its request.
type handler struct {
	door
	rn     *runner.Runner
	config Config
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	patient := h.bodies.LimitReading(w, r)
	d, err := h.open(w, r)
	if err == nil {
		patient() // the store may take longer than the sender may
		err = h.deliver(r.Context(), d)
	}
	if err != nil {
		h.refuse(w, r, d, err)
		return
	}
	accept(w, &d.answer)
}

func (h *handler) deliver(ctx context.Context, d *delivery) error {
	if d.token.Wait != nil {
		return h.wait(ctx, d)
	}
	if d.overflow {
		return h.failLarge(ctx, d)
	}
	return d.op.deliver(h, ctx, d)
}

// delivery is one request, as far as it is understood.
type delivery struct {
	op     operation
	token  runner.Token
	event  string // of an event whose name stands in the path
	id     string // of the delivery, if its sender gives one
	signed Signed // by whom, if the handler has a verifier
	body   []byte
	answer answer

	overflow bool // the body is authentic, and too large: it is to fail the call
}

// open returns what a request asks for, and the error of one that may not have
// it.
func (h *handler) open(w http.ResponseWriter, r *http.Request) (*delivery, error) {
	d := &delivery{}
	if err := h.knock(r); err != nil {
		return d, err
	}
	text, err := h.route(r, d)
	if err != nil {
		return d, err
	}
	op := d.op
	d.id = r.Header.Get(h.config.DeliveryHeader)
	if err := onlyPost(w, r); err != nil {
		return d, err
	}
	if text == "" {
		return d, httpin.Refuse("no_token",
			"the request has no token, neither in its path nor as Authorization: Bearer")
	}
	if d.token, err = h.rn.ReadToken(r.Context(), text); err != nil {
		return d, err
	}
	if err := h.limits.token.Take(tokenName(text), h.now()); err != nil {
		return d, err
	}
	if !d.token.Allows(op.permit) {
		return d, httpin.Refuse("not_allowed",
			"the token does not permit "+string(op.permit)+
				"; it is made for something else, at a path of its own")
	}
	if err := errors.Join(httpin.Plain(w, r), httpin.IsJSON(r)); err != nil {
		return d, err
	}
	if err := h.receive(w, r, d); err != nil {
		return d, err
	}
	if h.verifier != nil { // then what isn't signed isn't believed
		d.id = d.signed.Delivery
	}
	d.body = httpin.Unmarked(d.body)
	return d, nil
}

// tokenName returns the part of a good token that stands for all of it.
func tokenName(token string) string { return token[strings.LastIndexByte(token, '.')+1:] }

// route returns the token of a path, if it has one, and notes the operation.
func (h *handler) route(r *http.Request, d *delivery) (token string, err error) {
	rest, ours := strings.CutPrefix(r.URL.Path, h.config.Path)
	token, name, two := strings.Cut(rest, "/")
	if _, isName := operations[token]; isName && (!two || token == eventPath) {
		token, name = "", rest // "/hooks/fail", "/hooks/event/offer", and "/hooks/" itself
	}
	named := false
	if event, ok := strings.CutPrefix(name, eventPath+"/"); ok {
		name, d.event, named = eventPath, event, true
	}
	op, known := operations[name]
	if !ours || !known || two && name == "" || named && d.event == "" {
		return "", httpin.Refuse("no_such_path",
			"there is nothing at this path: this handler's begin with "+h.config.Path+
				", then a token, and then nothing, fail, progress, heartbeat, cancel, approve, deny, "+
				"event, or event and its name")
	}
	if token == "" {
		token = bearer(r)
	}
	d.op = op
	return token, nil
}

// pause returns the id of the pause that the token is for; empty, if it is for
// its call.
func (d *delivery) pause() string {
	if d.token.Pause == 0 {
		return ""
	}
	return d.token.PauseID()
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

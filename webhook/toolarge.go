package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
)

// StreamVerifier is a Verifier that checks a body without having all of it.
// Those of [GitHub], [Stripe] and [StandardWebhooks] are, the last one for the
// form v1, and so is that of [Senders] as far as its verifiers are.
type StreamVerifier interface {
	Verifier
	// Stream begins the check of a body, which is then written to it.
	Stream(h http.Header, now time.Time) (SignatureCheck, error)
}

// SignatureCheck is the check of one body. Signed says who has signed what was
// written, or why none has, as Verify does.
type SignatureCheck interface {
	io.Writer
	Signed() (Signed, error)
}

// DefaultMaxHashed is the default of Config.MaxHashed, in bytes.
const DefaultMaxHashed = 16 << 20

// receive reads a body, and checks its signature. Of an answer that is too
// large, and is to fail its call, nothing is kept but who has signed it.
func (h *handler) receive(w http.ResponseWriter, r *http.Request, d *delivery) (err error) {
	if !h.config.FailTooLarge || d.op.permit != tool.PermitComplete {
		d.body, err = h.bodies.Read(w, r)
	} else if d.body, err = h.readOn(w, r, d); d.overflow {
		return err
	}
	if err != nil {
		return err
	}
	d.signed, err = h.verify(r, d.body)
	return err
}

// readOn reads a body. Of one that is too large it notes that, once it is
// authentic: by its token, or, if a signature is wanted, by that.
func (h *handler) readOn(w http.ResponseWriter, r *http.Request, d *delivery) ([]byte, error) {
	stream, ok := h.verifier.(StreamVerifier)
	if !ok || r.ContentLength > h.config.MaxHashed {
		body, err := h.bodies.Read(w, r)
		if h.verifier == nil && isTooLarge(err) {
			d.overflow, err = true, nil
		}
		return body, err
	}
	body := http.MaxBytesReader(w, r.Body, h.config.MaxHashed)
	first, err := io.ReadAll(io.LimitReader(body, h.bodies.Max+1))
	if err != nil || int64(len(first)) <= h.bodies.Max {
		return first, h.bodies.Unread(w, err)
	}
	d.signed, err = h.hash(w, r, stream, io.MultiReader(bytes.NewReader(first), body))
	if errors.Is(err, ErrUnverified) {
		err = h.bodies.TooLarge() // which it is, signed or not
	}
	d.overflow = err == nil
	return nil, err
}

// hash checks the signature of a body that is not kept.
func (h *handler) hash(
	w http.ResponseWriter, r *http.Request, v StreamVerifier, body io.Reader,
) (Signed, error) {
	check, err := v.Stream(r.Header, h.now())
	if err != nil {
		return Signed{}, err
	}
	if _, err := io.Copy(check, body); err != nil {
		return Signed{}, h.bodies.Unread(w, err)
	}
	by, err := believed(check.Signed())
	if err != nil {
		return Signed{}, err
	}
	return by, h.limits.sender.Take(by.Sender, h.now())
}

// isTooLarge reports whether a body was over its bound.
func isTooLarge(err error) bool {
	e := httpin.AsRefusal(err)
	return e != nil && e.Code == "too_large"
}

// failLarge fails the call whose answer is too large. Its sender is told that
// it is, and what came of it.
func (h *handler) failLarge(ctx context.Context, d *delivery) error {
	why := fmt.Sprintf("its answer came, with more than the %d bytes that are taken, "+
		"and was not kept", h.bodies.Max)
	err := h.resume(ctx, d, runner.Fail(d.token.PauseID(), h.actor(d), why, false))
	if err != nil {
		return err
	}
	return httpin.Refuse("too_large", fmt.Sprintf(
		"a body has at most %d bytes; the call has failed by it", h.bodies.Max))
}

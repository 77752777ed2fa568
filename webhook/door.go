package webhook

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/fermata-ai/fermata/internal/httpin"
)

// door is what a request passes before it is known what it asks for: how its
// body is read, and who signed it. It does not change.
type door struct {
	verifier Verifier // nil: no signature is wanted
	bodies   httpin.Bodies
	now      func() time.Time
	logger   *slog.Logger
	limits   *limits
}

// newDoor puts the defaults in, and returns what is wrong with the rest.
func newDoor(d door, l Limits) (_ door, err error) {
	if d.bodies.Max < 0 || d.bodies.Timeout < 0 {
		return d, errors.New("webhook: MaxBody or ReadTimeout is negative; zero is the default")
	}
	if d.bodies.Max == 0 {
		d.bodies.Max = DefaultMaxBody
	}
	if d.bodies.Timeout == 0 {
		d.bodies.Timeout = 30 * time.Second
	}
	if d.now == nil {
		d.now = time.Now
	}
	if d.logger == nil {
		d.logger = slog.Default()
	}
	d.limits, err = newLimits(l)
	return d, err
}

// bodies returns how bodies are read, without the defaults.
func bodies(most int64, timeout time.Duration) httpin.Bodies {
	return httpin.Bodies{Max: most, Timeout: timeout,
		Instead: "store a larger output elsewhere and send a reference, or send a failure"}
}

// onlyPost refuses all other methods.
func onlyPost(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return httpin.Refuse("method", "only POST is taken")
	}
	return nil
}

// knock counts a request for the address that it comes from.
func (d *door) knock(r *http.Request) error {
	if d.limits.address == nil {
		return nil
	}
	return d.limits.address.Take(d.limits.proxies.Client(r), d.now())
}

// verify returns who has signed a request, and counts it for that one. If no
// signature is wanted, it returns the zero Signed.
func (d *door) verify(r *http.Request, body []byte) (Signed, error) {
	if d.verifier == nil {
		return Signed{}, nil
	}
	by, err := verify(d.verifier, r.Header, body, d.now())
	if err != nil {
		return Signed{}, err
	}
	return by, d.limits.sender.Take(by.Sender, d.now())
}

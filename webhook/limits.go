package webhook

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/fermata-ai/fermata/internal/httpin"
)

// Limits bound how many requests a handler takes. What is over them is refused
// with a 429 that says when to come again. They are of one process: several
// behind a balancer take as many each.
type Limits struct {
	// Address is for each address that requests come from, whatever they ask
	// for: the first check of all. Addresses of IPv6 count by their first 64
	// bits, which one user has.
	Address Rate
	// Token is for each token, and Sender for each sender, once it is known that
	// the token is good and that the sender has signed.
	Token, Sender Rate
	// Remembered is how many addresses, tokens and senders are remembered, of
	// each; default 10,000. The one that was away longest is forgotten, and may
	// then begin anew.
	Remembered int
	// Proxies are the networks of your own proxies. For a request that comes
	// from one of them, the address is the last one in X-Forwarded-For that is
	// not a proxy's. From all others the header counts for nothing: anyone can
	// write it.
	Proxies []netip.Prefix
}

// Rate is how many requests are taken. The zero value takes all.
type Rate struct {
	PerSecond float64
	Burst     int // how many at once; default one second's, and at least 1
}

// limits are those of one handler. The nil one takes all.
type limits struct {
	address, token, sender *httpin.Limiter
	proxies                httpin.Proxies
}

func newLimits(l Limits) (*limits, error) {
	if l.Remembered < 0 {
		return nil, errors.New("webhook: Limits.Remembered is negative; zero is the default")
	}
	if l.Remembered == 0 {
		l.Remembered = httpin.DefaultRemembered
	}
	out := &limits{}
	for _, one := range []struct {
		into **httpin.Limiter
		of   string
		rate Rate
	}{{&out.address, "address", l.Address}, {&out.token, "token", l.Token},
		{&out.sender, "sender", l.Sender}} {
		var err error
		*one.into, err = httpin.NewLimiter(one.of, httpin.Rate(one.rate), l.Remembered)
		if err != nil {
			return nil, fmt.Errorf("webhook: %w", err)
		}
	}
	var err error
	if out.proxies, err = httpin.NewProxies(l.Proxies); err != nil {
		return nil, fmt.Errorf("webhook: Limits.Proxies: %w", err)
	}
	return out, nil
}

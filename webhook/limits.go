package webhook

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
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

const defaultRemembered = 10_000

// limitError refuses a request that is one too many.
type limitError struct {
	of   string
	wait time.Duration
}

func (e *limitError) Error() string {
	return fmt.Sprintf("webhook: there are too many requests of one %s; the next one is taken in %v",
		e.of, e.wait)
}

// limits are those of one handler. The nil one takes all.
type limits struct {
	address, token, sender *limiter
	proxies                []netip.Prefix
}

func newLimits(l Limits) (*limits, error) {
	if l.Remembered < 0 {
		return nil, errors.New("webhook: Limits.Remembered is negative; zero is the default")
	}
	if l.Remembered == 0 {
		l.Remembered = defaultRemembered
	}
	out := &limits{}
	for _, one := range []struct {
		into **limiter
		of   string
		rate Rate
	}{{&out.address, "address", l.Address}, {&out.token, "token", l.Token},
		{&out.sender, "sender", l.Sender}} {
		var err error
		if *one.into, err = newLimiter(one.of, one.rate, l.Remembered); err != nil {
			return nil, err
		}
	}
	for _, p := range l.Proxies {
		if !p.IsValid() {
			return nil, errors.New("webhook: Limits.Proxies has a network that is none")
		}
		out.proxies = append(out.proxies, p.Masked())
	}
	return out, nil
}

// limiter bounds the requests of each of some kind. The nil one takes all.
type limiter struct {
	of   string
	rate Rate

	mu    sync.Mutex // guards known, not what is in it
	known *simplelru.LRU[string, *rate.Limiter]
}

func newLimiter(of string, r Rate, remembered int) (*limiter, error) {
	switch {
	case r == Rate{}:
		return nil, nil
	case !(r.PerSecond > 0) || math.IsInf(r.PerSecond, 0) || r.Burst < 0:
		return nil, fmt.Errorf("webhook: the limit of one %s, %v a second and %d at once, takes "+
			"nothing or everything", of, r.PerSecond, r.Burst)
	}
	if r.Burst == 0 {
		r.Burst = max(1, int(min(r.PerSecond, math.MaxInt32)))
	}
	known, err := simplelru.NewLRU[string, *rate.Limiter](remembered, nil)
	return &limiter{of: of, rate: r, known: known}, err
}

// take counts a request, or refuses it.
func (l *limiter) take(name string, now time.Time) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	one, ok := l.known.Get(name)
	if !ok {
		one = rate.NewLimiter(rate.Limit(l.rate.PerSecond), l.rate.Burst)
		l.known.Add(name, one)
	}
	l.mu.Unlock()
	r := one.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now) // a request that is refused doesn't push the others back
		return &limitError{l.of, wait}
	}
	return nil
}

// client returns the address that a request counts for. Requests whose address
// isn't known count together.
func (l *limits) client(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	at := from.Addr().Unmap().WithZone("")
	hops := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	for l.trusted(at) && hops != "" {
		i := strings.LastIndexByte(hops, ',')
		before, err := hop(strings.TrimSpace(hops[i+1:]))
		if err != nil {
			break
		}
		at, hops = before, hops[:max(i, 0)]
	}
	if at.Is6() {
		if network, err := at.Prefix(64); err == nil {
			return network.String()
		}
	}
	return at.String()
}

// hop reads an address as proxies write it, with a port or without.
func hop(text string) (netip.Addr, error) {
	at, err := netip.ParseAddr(text)
	if err != nil {
		var port netip.AddrPort
		port, err = netip.ParseAddrPort(text)
		at = port.Addr()
	}
	return at.Unmap().WithZone(""), err
}

func (l *limits) trusted(at netip.Addr) bool {
	for _, p := range l.proxies {
		if p.Contains(at) {
			return true
		}
	}
	return false
}

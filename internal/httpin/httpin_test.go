package httpin

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// The address is the last one that our proxies have seen, and nothing that who
// asks could have written.
func TestAddressBehindProxies(t *testing.T) {
	proxies, err := NewProxies([]netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		remote, want string
		forwarded    []string
	}{
		{"192.0.2.1:80", "192.0.2.1", nil},
		{"192.0.2.1:80", "192.0.2.1", []string{"198.51.100.1"}},
		{"10.0.0.1:80", "198.51.100.1", []string{"198.51.100.1"}},
		{"10.0.0.1:80", "198.51.100.1", []string{"203.0.113.9, 198.51.100.1"}},
		{"10.0.0.1:80", "198.51.100.1", []string{"203.0.113.9", "198.51.100.1, 10.0.0.2"}},
		{"10.0.0.1:80", "198.51.100.1", []string{"198.51.100.1:4711"}},
		{"[::ffff:10.0.0.1]:80", "198.51.100.1", []string{" 198.51.100.1 "}},
		{"10.0.0.1:80", "10.0.0.1", nil},
		{"10.0.0.1:80", "10.0.0.1", []string{""}},
		{"10.0.0.1:80", "10.0.0.1", []string{"198.51.100.1, unknown"}},
		{"10.0.0.1:80", "10.0.0.2", []string{"unknown, 10.0.0.2"}},
		{"10.0.0.1:80", "10.0.0.3", []string{"10.0.0.3, 10.0.0.2"}},
		{"[2001:db8:2:3:4::5]:80", "2001:db8:2:3::/64", nil},
		{"[2001:db8:1::5]:80", "2001:db8:9:9::/64", []string{"2001:db8:9:9:1::1"}},
		{"[fe80::1%eth0]:80", "fe80::/64", nil},
		{"@", "", []string{"198.51.100.1"}},
	} {
		r := &http.Request{RemoteAddr: test.remote, Header: http.Header{"X-Forwarded-For": test.forwarded}}
		if got := proxies.Client(r); got != test.want {
			t.Errorf("%s, %q: %q, want %q", test.remote, test.forwarded, got, test.want)
		}
	}
}

// However many addresses there are, as many are remembered as the option says.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	l, err := NewLimiter("address", Rate{PerSecond: 1}, 100)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for k := range 1000 {
				_ = l.Take(fmt.Sprint(i, k), now)
			}
		})
	}
	all.Wait()
	if got := l.known.Len(); got != 100 {
		t.Errorf("%d are remembered", got)
	}
	if first, second := l.Take("x", now), l.Take("x", now); first != nil || second == nil {
		t.Errorf("the first two of an address come to %v and %v", first, second)
	}
}

package httpin

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the networks of the program's own proxies.
type Proxies []netip.Prefix

// NewProxies returns the networks without what stands behind their bits.
func NewProxies(given []netip.Prefix) (out Proxies, err error) {
	for i, p := range given {
		if !p.IsValid() {
			return nil, fmt.Errorf("the network %d of the proxies is none", i)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// Client returns the address that a request counts for. Requests whose address
// isn't known count together. For one that comes from a proxy, it is the last
// address in X-Forwarded-For that is no proxy's. Addresses of IPv6 count by
// their first 64 bits, which one user has.
func (all Proxies) Client(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	at := from.Addr().Unmap().WithZone("")
	hops := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	for all.have(at) && hops != "" {
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

func (all Proxies) have(at netip.Addr) bool {
	for _, p := range all {
		if p.Contains(at) {
			return true
		}
	}
	return false
}

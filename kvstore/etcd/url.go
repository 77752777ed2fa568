package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// How soon a connection that is dead is noticed.
const (
	keepAliveEvery = 10 * time.Second
	keepAliveWait  = 5 * time.Second
)

// Open connects to the cluster that a URL names, and returns the store there:
//
//	etcd://[user:password@]host:port[,host:port…][/prefix][?tls=true]
//
// Whatever stands before the last @ is the user and the password: in the prefix
// an @ is written %40. The prefix is Options.Prefix, if that is empty. With
// tls, certificates are checked by what the machine trusts; for anything else,
// make a client and call [New].
func Open(ctx context.Context, address string, o *Options) (*Store, error) {
	config, prefix, err := parse(address)
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	own := Options{}
	if o != nil {
		own = *o
	}
	if own.Prefix == "" {
		own.Prefix = prefix
	}
	s, err := New(ctx, client, &own)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// parse takes a URL apart. Errors have nothing of it but its beginning, since it
// may have a password.
func parse(address string) (c clientv3.Config, prefix string, err error) {
	bad := func(what string) error {
		return fmt.Errorf(
			"etcd: the URL %s: it is etcd://[user:password@]host:port[,…][/prefix][?tls=true]", what)
	}
	rest, ok := strings.CutPrefix(address, "etcd://")
	if !ok {
		return c, "", bad("doesn't begin with etcd://")
	}
	user := ""
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, rest = rest[:at], rest[at+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, prefix, _ := strings.Cut(rest, "/")
	if prefix, err = url.PathUnescape(prefix); err != nil {
		return c, "", bad("has a malformed prefix")
	}
	name, password, _ := strings.Cut(user, ":")
	if c.Username, err = url.PathUnescape(name); err != nil {
		return c, "", bad("has a malformed user")
	}
	if c.Password, err = url.PathUnescape(password); err != nil {
		return c, "", bad("has a malformed password")
	}
	values, err := url.ParseQuery(query)
	secure := values.Get("tls") == "true"
	if err != nil || len(values) > 1 || len(values) == 1 && !secure {
		return c, "", bad("has parameters that aren't known")
	}
	scheme := "http://"
	if secure {
		scheme, c.TLS = "https://", &tls.Config{MinVersion: tls.VersionTLS12}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if !isHost(host) {
			return c, "", bad("has no host, or one that isn't host:port")
		}
		c.Endpoints = append(c.Endpoints, scheme+host)
	}
	c.DialTimeout, c.DialKeepAliveTime, c.DialKeepAliveTimeout = keepAliveWait, keepAliveEvery,
		keepAliveWait
	c.Logger = zap.NewNop() // what fails is an error of the call
	return c, prefix, nil
}

// isHost reports whether a host can be told apart from a password that isn't
// where it belongs: what the client says of hosts names them.
func isHost(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil || name == "" || strings.ContainsAny(name, "%\\#\"") ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

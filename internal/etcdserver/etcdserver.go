// Package etcdserver runs an etcd server within a test or an example, on the
// loopback interface and in a folder of the caller's. It has the tests of
// kvstore/etcd, too, which then needs no server among its own dependencies. It
// isn't released.
package etcdserver

import (
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Config configures a server. Zero values are etcd's own defaults.
type Config struct {
	Dir             string // its data; required
	Quota           int64  // bytes of data
	MaxTxnOps       uint
	MaxRequestBytes uint
	// Fsync: what was answered outlives a failure of the machine. Tests, which
	// at most end the process, need it not.
	Fsync bool
}

// Server is a server that runs.
type Server struct {
	etcd *embed.Etcd
	stop func()
}

// startWithin is how long a server may take to be ready.
const startWithin = time.Minute

// Start starts a server, and returns when it takes requests.
func Start(c Config) (*Server, error) {
	if c.Dir == "" {
		return nil, errors.New("etcdserver: it needs a folder")
	}
	e := embed.NewConfig()
	e.Dir = c.Dir
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e.ListenClientUrls, e.ListenPeerUrls = free, free
	e.AdvertiseClientUrls, e.AdvertisePeerUrls = free, free
	e.InitialCluster = e.InitialClusterFromName(e.Name)
	e.UnsafeNoFsync = !c.Fsync
	e.EnableGRPCGateway = false
	e.TickMs, e.ElectionMs = 10, 100 // it is alone, and needn't wait for others
	if c.Quota > 0 {
		e.QuotaBackendBytes = c.Quota
	}
	if c.MaxTxnOps > 0 {
		e.MaxTxnOps = c.MaxTxnOps
	}
	if c.MaxRequestBytes > 0 {
		e.MaxRequestBytes = c.MaxRequestBytes
	}
	server, err := embed.StartEtcd(e)
	if err != nil {
		return nil, fmt.Errorf("etcdserver: %w", err)
	}
	late := time.NewTimer(startWithin)
	defer late.Stop()
	select {
	case <-server.Server.ReadyNotify():
		return &Server{server, sync.OnceFunc(server.Close)}, nil
	case err = <-server.Err():
	case <-late.C:
		err = fmt.Errorf("it isn't ready after %v", startWithin)
	}
	server.Close()
	return nil, fmt.Errorf("etcdserver: %w", err)
}

// Addr returns where clients find the server: a host and a port.
func (s *Server) Addr() string { return s.etcd.Clients[0].Addr().String() }

// Close stops the server. Its data stay. To close once more does nothing.
func (s *Server) Close() { s.stop() }

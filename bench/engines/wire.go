package main

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

// wire counts the bytes that a process exchanges with the server.
type wire struct{ bytes atomic.Int64 }

// poolSize is the same for all systems, so that none has more of the server.
const poolSize = 16

// pool connects as all systems do.
func (w *wire) pool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	c.MaxConns = poolSize
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return counted{conn, w}, nil
	}
	return pgxpool.NewWithConfig(ctx, c)
}

// counted is a connection whose bytes are counted.
type counted struct {
	net.Conn
	w *wire
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.w.bytes.Add(int64(n))
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.w.bytes.Add(int64(n))
	return n, err
}

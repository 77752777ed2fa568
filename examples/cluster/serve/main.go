// Command serve opens a store in PostgreSQL or etcd, and serves it to an example,
// which depends on neither: see package examples/store. It prints the address, and
// ends with its input.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/fermata-ai/fermata/examples/cluster/engines"
	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
)

var (
	url   = flag.String("store", "", "the `URL` of the store: postgres://… or etcd://…")
	place = flag.String("place", "", "the `name` of the example's place in it")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	ctx := context.Background()
	fail(engines.Prepare(ctx, *url, *place))
	kv, err := engines.Open(ctx, *url, *place)
	fail(err)
	server, err := sharedkv.Listen(kv)
	fail(err)
	fmt.Println(server.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	fail(server.Close())
	fail(kv.Close())
}

func fail(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Clients in Go, with the command line of tests/kafka/clients/program.py.
//
//	clients franz-go|sarama|kafka-go produce   --servers HOST:PORT,… --topic T --prefix P --count N
//	clients franz-go|sarama|kafka-go consume   --servers … --topic T --offset O --count N
//	clients franz-go|sarama|kafka-go subscribe --servers … --topic T --group G --session MS --count N
//	clients franz-go|sarama|kafka-go describe  --servers … --topic T
//	clients version
//
// "produce" prints "prefix.number offset" for each acknowledged record, "consume" and "subscribe" print "offset value"
// for each record, and "describe" one JSON object. Status 0 means that every record was acknowledged, or read.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// step is the least pause of a paced producer, which sends the next records at once.
const step = 20 * time.Millisecond

type options struct {
	servers     []string
	topic       string
	group       string
	session     time.Duration
	prefix      string
	compression string
	count       int
	offset      int64
	rate        float64
	plain       bool
}

// sent is one record for the log; every program gives it the same key and header.
type sent struct {
	key, value, prefix string
}

type description struct {
	ClusterID    string   `json:"cluster_id"`
	Nodes        []int32  `json:"nodes"`
	Leader       int32    `json:"leader"`
	StartOffset  int64    `json:"start_offset"`
	EndOffset    int64    `json:"end_offset"`
	OffsetOfTime int64    `json:"offset_of_time"`
	Topics       []string `json:"topics"`
}

type client interface {
	// produce sends all records, in their order, and calls acknowledged for each with its offset.
	produce(o options, records <-chan sent, acknowledged func(value string, offset int64)) error
	// consume reads from an offset on, with an assigned partition, until read returns false.
	consume(o options, read func(offset int64, value string) bool) error
	// subscribe reads as the member of a group, commits after each poll what it has read, and leaves. It goes on when a
	// commit is refused: after it was away another member reads these records again.
	subscribe(o options, read func(offset int64, value string) bool) error
	describe(o options) (description, error)
}

var clients = map[string]client{"franz-go": franz{}, "sarama": saramaClient{}, "kafka-go": segment{}}

// paced are the records, at most o.rate a second; 0 means as fast as they are taken.
func paced(o options) <-chan sent {
	records := make(chan sent)
	go func() {
		defer close(records)
		started := time.Now()
		for number := 0; number < o.count; number++ {
			if o.rate > 0 {
				due := time.Duration(float64(number) / o.rate * float64(time.Second))
				if ahead := due - time.Since(started); ahead > step {
					time.Sleep(ahead)
				}
			}
			records <- sent{
				key: fmt.Sprintf("key %d", number), value: fmt.Sprintf("%s.%d", o.prefix, number), prefix: o.prefix,
			}
		}
	}()
	return records
}

// printer prints lines from any goroutine and counts them.
type printer struct {
	lock  sync.Mutex
	out   *bufio.Writer
	count int
}

func (p *printer) line(format string, values ...any) int {
	p.lock.Lock()
	defer p.lock.Unlock()
	fmt.Fprintf(p.out, format, values...)
	p.out.Flush()
	p.count++
	return p.count
}

func run(chosen client, mode string, o options) error {
	lines := &printer{out: bufio.NewWriter(os.Stdout)}
	read := func(offset int64, value string) bool { return lines.line("%d %s\n", offset, value) < o.count }
	switch mode {
	case "produce":
		acknowledged := func(value string, offset int64) { lines.line("%s %d\n", value, offset) }
		if err := chosen.produce(o, paced(o), acknowledged); err != nil {
			return err
		}
		if lines.count != o.count {
			return fmt.Errorf("%d of %d records were acknowledged", lines.count, o.count)
		}
		return nil
	case "consume":
		return chosen.consume(o, read)
	case "subscribe":
		return chosen.subscribe(o, read)
	case "describe":
		found, err := chosen.describe(o)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(found)
	}
	return fmt.Errorf("no mode %q", mode)
}

// versions are the versions of the libraries in this program.
func versions() map[string]string {
	names := map[string]string{
		"github.com/twmb/franz-go": "franz-go", "github.com/IBM/sarama": "sarama", "github.com/segmentio/kafka-go": "kafka-go",
	}
	found := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, each := range info.Deps {
			if name, ok := names[each.Path]; ok {
				found[name] = strings.TrimPrefix(each.Version, "v")
			}
		}
	}
	return found
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		json.NewEncoder(os.Stdout).Encode(versions())
		return
	}
	if len(os.Args) < 3 || clients[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: clients franz-go|sarama|kafka-go produce|consume|subscribe|describe …")
		os.Exit(2)
	}
	var o options
	var servers string
	words := flag.NewFlagSet("clients", flag.ExitOnError)
	words.StringVar(&servers, "servers", "", "")
	words.StringVar(&o.topic, "topic", "", "")
	words.StringVar(&o.group, "group", "", "")
	session := words.Int("session", 10_000, "milliseconds")
	words.StringVar(&o.prefix, "prefix", "0", "")
	words.StringVar(&o.compression, "compression", "none", "")
	words.IntVar(&o.count, "count", 0, "")
	words.Int64Var(&o.offset, "offset", 0, "")
	words.Float64Var(&o.rate, "rate", 0, "")
	words.BoolVar(&o.plain, "plain", false, "acks=all without idempotence")
	words.Parse(os.Args[3:])
	o.servers = strings.Split(servers, ",")
	o.session = time.Duration(*session) * time.Millisecond
	if err := run(clients[os.Args[1]], os.Args[2], o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

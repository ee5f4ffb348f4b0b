package main

import (
	"context"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{}

func (franz) codec(name string) kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[name]
}

func (f franz) produce(o options, records <-chan sent, acknowledged func(string, int64)) error {
	settings := []kgo.Opt{
		kgo.SeedBrokers(o.servers...), kgo.DefaultProduceTopic(o.topic), kgo.ProducerBatchCompression(f.codec(o.compression)),
		kgo.ProducerLinger(5 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if o.plain {
		settings = append(settings, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	cl, err := kgo.NewClient(settings...)
	if err != nil {
		return err
	}
	defer cl.Close()
	var lock sync.Mutex
	var failed error
	for each := range records {
		record := &kgo.Record{Key: []byte(each.key), Value: []byte(each.value)}
		record.Headers = []kgo.RecordHeader{{Key: "prefix", Value: []byte(each.prefix)}}
		cl.Produce(context.Background(), record, func(r *kgo.Record, err error) {
			if err != nil {
				lock.Lock()
				failed = err
				lock.Unlock()
				return
			}
			acknowledged(string(r.Value), r.Offset)
		})
	}
	if err := cl.Flush(context.Background()); err != nil {
		return err
	}
	lock.Lock()
	defer lock.Unlock()
	return failed
}

// poll calls polled after each poll, with the last record that was read, or nil.
func (franz) poll(cl *kgo.Client, read func(int64, string) bool, polled func(last *kgo.Record)) {
	for goesOn := true; goesOn; {
		var record *kgo.Record
		// What it reports here, it tries again by itself.
		fetches := cl.PollFetches(context.Background())
		for each := fetches.RecordIter(); goesOn && !each.Done(); {
			record = each.Next()
			goesOn = read(record.Offset, string(record.Value))
		}
		polled(record)
	}
}

func (f franz) consume(o options, read func(int64, string) bool) error {
	from := map[string]map[int32]kgo.Offset{o.topic: {0: kgo.NewOffset().At(o.offset)}}
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.servers...), kgo.ConsumePartitions(from))
	if err != nil {
		return err
	}
	defer cl.Close()
	f.poll(cl, read, func(*kgo.Record) {})
	return nil
}

func (f franz) subscribe(o options, read func(int64, string) bool) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.servers...), kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(o.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.SessionTimeout(o.session),
		kgo.HeartbeatInterval(o.session/10),
		// Without it a member that was away commits what it had read under its next generation.
		kgo.BlockRebalanceOnPoll())
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	f.poll(cl, read, func(last *kgo.Record) {
		if last != nil {
			err = cl.CommitRecords(context.Background(), last)
		}
		cl.AllowRebalance()
	})
	return err
}

func (franz) describe(o options) (found description, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.servers...))
	if err != nil {
		return found, err
	}
	defer cl.Close()
	admin, all := kadm.NewClient(cl), context.Background()
	metadata, err := admin.Metadata(all)
	if err != nil {
		return found, err
	}
	found.ClusterID = metadata.Cluster
	for _, each := range metadata.Brokers.NodeIDs() {
		found.Nodes = append(found.Nodes, each)
	}
	found.Topics = metadata.Topics.Names()
	sort.Strings(found.Topics)
	found.Leader = metadata.Topics[o.topic].Partitions[0].Leader
	start, err := admin.ListStartOffsets(all, o.topic)
	if err != nil {
		return found, err
	}
	end, err := admin.ListEndOffsets(all, o.topic)
	if err != nil {
		return found, err
	}
	ofTime, err := admin.ListOffsetsAfterMilli(all, 1, o.topic)
	if err != nil {
		return found, err
	}
	found.StartOffset, found.EndOffset = start[o.topic][0].Offset, end[o.topic][0].Offset
	found.OffsetOfTime = ofTime[o.topic][0].Offset
	return found, nil
}

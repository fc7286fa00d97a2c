"""Operators that libopapi runs by CANN's name and attributes: what --singleop may name; gen_named_ops.py writes it."""

NAMES = frozenset(
    """
    Abs Acos Acosh ActiveRotatedFilter ActiveRotatedFilterGrad AdaptiveAvgPool2d AdaptiveAvgPool2dGrad Add Addcdiv
    Addcmul AnchorResponseFlags ApplyAdamD ApplyAdamV2 ApplyAdamW ArgMaxGrad ArgMaxV2 ArgMaxWithValue ArgMin
    ArgMinWithValue AsStrided Asin Asinh Atan Atan2 Atanh AttentionLnQKV AttentionScore AvgPoolV2 AvgPoolV2Grad AxpyV2
    AxpyWithSoftmaxAndDropOutDoMask BN3DTrainingReduce BN3DTrainingReduceGrad BN3DTrainingUpdate BN3DTrainingUpdateGrad
    BNInfer BNInferGrad BNTrainingReduce BNTrainingReduceGrad BNTrainingUpdate BNTrainingUpdateGrad BallQuery
    BatchMatMul BatchMultiClassNonMaxSuppression BatchNorm BinaryCrossEntropy BinaryCrossEntropyGrad Bincount BitwiseAnd
    BitwiseOr BitwiseXor BoundingBoxDecode BoundingBoxEncode BroadcastTo BroadcastToD CIoU CIoUGrad Cast CdistGrad Ceil
    CeluV2 ChamferDistance ClipByValue ClipByValueV2 ConcatD ConfusionTransposeD Conv2D Conv2DBackpropFilter
    Conv2DBackpropInput Conv2DTranspose Conv3D Conv3DBackpropFilter Conv3DBackpropInput Conv3DTranspose Cos Cosh Cummax
    Cummin Cumprod Cumsum DIoU DIoUGrad DeformableOffsets DeformableOffsetsGrad DeformableRoiPool DeformableRoiPoolGrad
    DepthwiseConv2DBackpropFilter DepthwiseConv2DBackpropInput Diag DiagPart Div Dot DropOutDoMask DropOutDoMaskV3
    DropOutGenMaskV3 DropoutWithMulsAndSoftmaxGrad DynamicGRUV2 DynamicGRUV2Grad DynamicRNN DynamicRNNGrad DynamicRNNV2
    DynamicRNNV2Grad Elu EluGradV2 EmbeddingDenseGrad Equal Erf Erfc Erfinv Exp Expm1 Eye Fill Flatten Floor FloorDiv
    FloorMod FusedBiasLeakyRelu FusedBiasLeakyReluGrad GEMM GIoU GIoUGrad GLU GLUGrad GatherElements GatherV2 GatherV2D
    Gelu GeluGrad Greater GreaterEqual GridAssignPositive GroupNorm GroupNormSwish HardShrink HardShrinkGrad HardSigmoid
    HardSigmoidGrad HardSwish HardSwishGrad HardtanhGrad IFMR Identity Index IndexPutV2 InplaceIndexAdd Invert Iou
    IsFinite KLDiv KlDivLossGrad L1LossGrad LayerNorm LayerNormGrad LayerNormV3 LeakyRelu LeakyReluGrad Lerp Less
    LessEqual LinSpace Log Log1p LogAddExp LogSigmoid LogSigmoidGrad LogSoftmaxGrad LogSoftmaxV2 LogicalAnd LogicalNot
    LogicalOr LpLoss LpNormReduceV2 LpNormUpdateV2 MaskedFill MaskedFillRange MaskedScatter MaskedSelect MatMul MatMulV2
    MaxPoolGradWithArgmaxV1 MaxPoolV3 MaxPoolWithArgmaxV1 Maximum Minimum MirrorPad Mish MishGrad MlaProlog Mod MseLoss
    MseLossGrad Mul MultiHeadAttention MultiHeadAttentionGrad NLLLoss NLLLossGrad NMSWithMask NPUAllocFloatStatus
    NPUClearFloatDebugStatus NPUClearFloatStatus NPUClearFloatStatusV2 NPUGetFloatDebugStatus NPUGetFloatStatus
    NPUGetFloatStatusV2 Neg NonMaxSuppressionV3 NonMaxSuppressionV4 NonZero NormalizeBatch NotEqual OneHot OneHotD
    OnesLike PSAMask PSAMaskGrad PSROIPoolingGradV2D PSROIPoolingV2 Pack Pad PadV3 PadV3Grad PointsInPolygons Pow
    ROIAlign ROIAlignGrad RandomChoiceWithMask Range RealDiv Reciprocal ReduceAll ReduceAny ReduceLogSumExp ReduceMax
    ReduceMean ReduceMeanD ReduceMin ReduceProd ReduceStdV2Update ReduceStdWithMean ReduceSum Relu ReluGrad
    ResizeBilinearV2 ResizeBilinearV2Grad ResizeNearestNeighborV2 ResizeNearestNeighborV2Grad ReverseV2 RoiAlignRotated
    RoiAlignRotatedGrad RoiPoolingGradWithArgMax RoiPoolingWithArgMax Roll RotatedBoxDecode RotatedBoxEncode
    RotatedFeatureAlign RotatedFeatureAlignGrad RotatedIou RotatedNMS RotatedOverlaps Round Rsqrt ScaledMaskedSoftmax
    ScaledMaskedSoftmaxGrad ScatterElements Select Selu Sigmoid SigmoidCrossEntropyWithLogitsGradV2
    SigmoidCrossEntropyWithLogitsV2 SigmoidFocalLoss SigmoidFocalLossGrad SigmoidGrad Sign SignBitsPack SignBitsUnpack
    SilentCheck SiluGrad Sin Sinh Slice SmoothL1LossGradV2 SmoothL1LossV2 SoftShrink SoftShrinkGrad
    SoftmaxCrossEntropyWithLogits SoftmaxFocalLoss SoftmaxFocalLossGrad SoftmaxGrad SoftmaxV2 SoftplusV2 SoftplusV2Grad
    Sort SortV2 Sqrt Square StrideAdd StridedSlice Sub SubSample Swish SwishGrad Tan Tanh TanhGrad ThreeInterpolate
    ThresholdGradV2D ThresholdV2D Tile TopKV2 Trace TransData Transpose TransposeD Tril Triu Trunc
    UniqueWithCountsAndSorting ViewCopy Voxelization Xlogy YoloBoxesEncode ZerosLike
    """.split()
)
